"""`mcp` 1."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import with_mcp1
from behaviour import *  # noqa: F403
from behaviour import Connect
from callgate_client.mcp1 import attach
from callgate_client.mcp1 import connect as connect_mcp1


@pytest.fixture
def connect() -> Connect:
    return connect_mcp1


@pytest.fixture
async def other_session() -> AsyncIterator[ClientSession]:
    other = StdioServerParameters(
        command=sys.executable, args=[str(Path(__file__).parent / "other_server.py")]
    )
    async with stdio_client(other) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@pytest.mark.anyio
async def test_the_example_runs(server: str | list[str]) -> None:
    assert await with_mcp1.main(server) == ["AI: news 1", "AI: news 2", "AI: news 3"]


@pytest.mark.anyio
async def test_the_example_with_a_session_of_ones_own_runs(start_http: Callable[..., str]) -> None:
    assert await with_mcp1.with_own_session(start_http()) == "Ann"


@pytest.mark.anyio
async def test_the_handler_that_a_session_had_still_gets_the_rest(program: str) -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        heard.append(message)

    server = StdioServerParameters(command=program)
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, message_handler=hear) as session,
    ):
        await session.initialize()
        await session.set_logging_level("info")
        sandbox = attach(session)
        await sandbox.run("print('told')")
    assert any("told" in repr(message) for message in heard)
