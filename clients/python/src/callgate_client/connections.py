"""Connections that serve one program at a time."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio

from callgate_client.sandbox import Sandbox

CLOSING_TIME = 5
"""How many seconds a connection that is given up has to close."""


class Connections:
    """As many connections as there are programs under way, kept for the next ones.

    A call does not say whose program it comes from. With one program on a connection there is no question.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[Sandbox]]) -> None:
        self._connect = connect
        self._idle: list[tuple[Sandbox, AsyncExitStack]] = []
        self._users = 0

    async def __aenter__(self) -> None:
        self._users += 1

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        while self._idle and not self._users:
            await self._idle.pop()[1].aclose()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Sandbox]:
        """Take a connection for a while."""
        sandbox, stack = self._idle.pop() if self._idle else await self._open()
        try:
            yield sandbox
        except BaseException:
            # It may be broken, or a program that was given up may still call: not for the next one.
            with anyio.move_on_after(CLOSING_TIME, shield=True):
                await stack.aclose()
            raise
        self._idle.append((sandbox, stack))

    async def _open(self) -> tuple[Sandbox, AsyncExitStack]:
        stack = AsyncExitStack()
        return await stack.enter_async_context(self._connect()), stack
