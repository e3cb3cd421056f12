"""The real server, for all tests."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

pytest.register_assert_rewrite("behaviour")
# The examples are tested, too.
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

Server: TypeAlias = "str | list[str]"
Serve: TypeAlias = Callable[..., Server]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def program() -> str:
    """The server's binary; one that is not there is a failure, not a reason to skip."""
    return os.environ["CALLGATE_BIN"]


@pytest.fixture(scope="session")
def start_http(program: str) -> Iterator[Callable[..., str]]:
    """Starts servers over HTTP, one for each choice of flags; returns their URLs."""
    urls: dict[tuple[str, ...], str] = {}
    with ExitStack() as servers:

        def start(*flags: str) -> str:
            if flags not in urls:
                urls[flags] = servers.enter_context(_http(program, flags))
            return urls[flags]

        yield start


@contextmanager
def _http(program: str, flags: tuple[str, ...]) -> Iterator[str]:
    command = [program, "http", "--listen", "127.0.0.1:0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr
            line = server.stderr.readline()
            found = re.search(r"http://\S+/mcp", line)
            assert found, line
            yield found[0]
        finally:
            server.kill()


@pytest.fixture(params=["stdio", "http"])
def serve(request: pytest.FixtureRequest, program: str, start_http: Callable[..., str]) -> Serve:
    """Makes a server with flags, over each of the transports."""
    if request.param == "http":
        return start_http
    return lambda *flags: [program, *flags]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve()
