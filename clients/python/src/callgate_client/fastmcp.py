"""Tool calls for FastMCP's client."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from callgate_client.calls import PARALLEL
from callgate_client.mcp2 import ToolCallbacks
from callgate_client.needing import needing
from callgate_client.sandbox import Sandbox
from callgate_client.server import Command, Server
from callgate_client.tools import ToolsLike

with needing("fastmcp"):
    from fastmcp import Client
    from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport

__all__ = ["ToolCallbacks", "connect", "transport"]


def connect(
    server: Server | ClientTransport, tools: ToolsLike = (), *, parallel: int = PARALLEL, **options: Any
) -> AbstractAsyncContextManager[Sandbox]:
    """Connect to callgate; `options` are those of `fastmcp.Client`."""
    callbacks = ToolCallbacks(tools, parallel=parallel)
    return callbacks.serve(Client(transport(server), extensions=[callbacks], **options))


def transport(server: Server | ClientTransport) -> ClientTransport:
    """Make FastMCP's transport to a server."""
    if isinstance(server, ClientTransport):
        return server
    if isinstance(server, str):
        return StreamableHttpTransport(server)
    command = Command.of(server)
    # FastMCP would keep the process, and its session with it, for the next client.
    return StdioTransport(command.program, command.arguments, env=command.environment, keep_alive=False)
