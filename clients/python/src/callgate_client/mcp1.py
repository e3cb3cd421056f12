"""Tool calls for sessions of `mcp` 1."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import RootModel

from callgate_client.calls import PARALLEL, Calls
from callgate_client.messages import (
    ToolCallCancelledNotification,
    ToolCallRequestNotification,
    ToolCallResponse,
)
from callgate_client.needing import needing
from callgate_client.sandbox import Sandbox, run_errors_alone
from callgate_client.server import Command, Server
from callgate_client.tools import Tools, ToolsLike

with needing("mcp1"):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import ServerNotificationType


class _Notification(
    RootModel[ServerNotificationType | ToolCallRequestNotification | ToolCallCancelledNotification]
):
    """What a server may send; the library drops anything else with a warning."""


def attach(session: ClientSession, tools: ToolsLike = (), *, parallel: int = PARALLEL) -> Sandbox:
    """Answer tool calls through a session, before or after it is initialized."""

    async def send(response: ToolCallResponse) -> None:
        notification: Any = response  # the library's type has only what MCP itself has
        await session.send_notification(notification)

    calls = Calls(Tools.of(tools), send, parallel=parallel)
    # There is no public way to widen what a session takes, nor to add a handler to the one that it has.
    others = session._message_handler

    async def on_message(message: Any) -> None:
        match getattr(message, "root", None):
            case ToolCallRequestNotification(params=call):
                calls.start(call)
            case ToolCallCancelledNotification(params=cancelled):
                calls.cancel(cancelled.request_id)
            case _:
                await others(message)

    session._message_handler = on_message
    session._receive_notification_type = _Notification
    return Sandbox(session, calls)


@asynccontextmanager
async def connect(
    server: Server, tools: ToolsLike = (), *, parallel: int = PARALLEL
) -> AsyncIterator[Sandbox]:
    """Connect to callgate."""
    with run_errors_alone():
        async with _transport(server) as (read, write, *_), ClientSession(read, write) as session:
            sandbox = attach(session, tools, parallel=parallel)
            await session.initialize()
            try:
                yield sandbox
            finally:
                await sandbox.close()


def _transport(server: Server) -> Any:
    if isinstance(server, str):
        return streamable_http_client(server)
    command = Command.of(server)
    return stdio_client(
        StdioServerParameters(command=command.program, args=command.arguments, env=command.environment)
    )
