"""Connections for one program at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callgate_client.connections import Connections

pytestmark = pytest.mark.anyio


class Opened:
    """Counts connections."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.count = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        self.count += 1
        number = self.count
        self.open.append(number)
        try:
            yield number
        finally:
            self.open.remove(number)


async def test_a_connection_serves_one_program_after_the_other() -> None:
    opened = Opened()
    connections = Connections(opened.connect)
    async with connections:
        async with connections.lease() as first, connections.lease() as second:
            assert first != second
        async with connections.lease():
            pass
        assert opened.count == 2
        assert opened.open == [1, 2]
    assert opened.open == []


async def test_a_connection_whose_program_was_given_up_is_not_used_again() -> None:
    opened = Opened()
    connections = Connections(opened.connect)
    async with connections:
        with pytest.raises(LookupError):
            async with connections.lease():
                raise LookupError
        assert opened.open == []
        async with connections.lease():
            assert opened.open == [2]


async def test_connections_stay_open_until_the_last_user_has_left() -> None:
    opened = Opened()
    connections = Connections(opened.connect)
    async with connections:
        async with connections, connections.lease():
            pass
        assert opened.open == [1]
    assert opened.open == []
