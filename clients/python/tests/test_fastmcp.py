"""FastMCP's client, in both eras of the protocol."""

import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

import with_fastmcp
from behaviour import *  # noqa: F403
from behaviour import Connect
from callgate_client.fastmcp import connect as connect_fastmcp
from callgate_client.fastmcp import transport


@pytest.fixture(params=["auto", "legacy"])
def connect(request: pytest.FixtureRequest) -> Connect:
    return partial(connect_fastmcp, mode=request.param)


@pytest.fixture
async def other_session() -> AsyncIterator[Client[Any]]:
    async with Client(transport([sys.executable, str(Path(__file__).parent / "other_server.py")])) as client:
        yield client


@pytest.mark.anyio
async def test_the_example_runs(server: str | list[str]) -> None:
    assert await with_fastmcp.main(server) == ["AI: news 1", "AI: news 2", "AI: news 3"]


@pytest.mark.anyio
async def test_the_example_with_a_client_of_ones_own_runs(start_http: Callable[..., str]) -> None:
    assert await with_fastmcp.with_own_client(start_http()) == "Ann"


@pytest.mark.anyio
async def test_a_transport_of_ones_own_is_used(server: str | list[str]) -> None:
    async with connect_fastmcp(transport(server)) as sandbox:
        assert (await sandbox.run("1 + 1")).return_value == 2
