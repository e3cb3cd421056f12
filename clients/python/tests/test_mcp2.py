"""`mcp` 2, in both eras of the protocol."""

import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import with_mcp2
from behaviour import *  # noqa: F403
from behaviour import Connect
from callgate_client.mcp2 import connect as connect_mcp2


@pytest.fixture(params=["auto", "legacy"])
def connect(request: pytest.FixtureRequest) -> Connect:
    return partial(connect_mcp2, mode=request.param)


@pytest.fixture
async def other_session() -> AsyncIterator[Client]:
    other = str(Path(__file__).parent / "other_server.py")
    async with Client(StdioServerParameters(command=sys.executable, args=[other])) as client:
        yield client


@pytest.mark.anyio
async def test_the_example_runs(server: str | list[str]) -> None:
    assert await with_mcp2.main(server) == ["AI: news 1", "AI: news 2", "AI: news 3"]


@pytest.mark.anyio
async def test_the_example_with_a_client_of_ones_own_runs(start_http: Callable[..., str]) -> None:
    assert await with_mcp2.with_own_client(start_http()) == "Ann"


@pytest.mark.anyio
async def test_large_results_of_programs_arrive(connect: Connect, server: str | list[str]) -> None:
    async with connect(server) as sandbox:
        run = await sandbox.run("'x' * 3_000_000")
    assert run.return_value == "x" * 3_000_000
