"""Tool calls for clients of `mcp` 2."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from callgate_client.calls import PARALLEL, Calls
from callgate_client.messages import (
    CANCELLED,
    EXTENSION,
    REQUEST,
    ToolCall,
    ToolCallCancelled,
    ToolCallResponse,
)
from callgate_client.needing import needing
from callgate_client.sandbox import Sandbox, run_errors_alone
from callgate_client.server import Command, Server
from callgate_client.sessions import SessionOwner
from callgate_client.tools import Tools, ToolsLike

with needing("mcp"):
    from mcp.client import Client
    from mcp.client.extension import ClientExtension, NotificationBinding
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client


class ToolCallbacks(ClientExtension):
    """Says that the client answers tool calls, and answers them.

    For `mcp.client.Client(…, extensions=[callbacks])`, and FastMCP's `Client` alike. One serves one client.
    """

    identifier = EXTENSION

    def __init__(self, tools: ToolsLike = (), *, parallel: int = PARALLEL) -> None:
        self._calls = Calls(Tools.of(tools), self._send, parallel=parallel)
        self._client: SessionOwner | None = None

    def attach(self, client: SessionOwner) -> Sandbox:
        """Answer through this client, once it is connected: an extension is not told whose it is."""
        self._client = client
        return Sandbox(client.session, self._calls)

    @asynccontextmanager
    async def serve(self, client: AbstractAsyncContextManager[SessionOwner]) -> AsyncIterator[Sandbox]:
        """Connect a client that has this extension, and answer until the block ends."""
        with run_errors_alone():
            async with client as connected:
                sandbox = self.attach(connected)
                try:
                    yield sandbox
                finally:
                    await sandbox.close()

    def notifications(self) -> list[NotificationBinding[Any]]:
        """Tell the library which notifications are wanted."""
        return [
            NotificationBinding(method=REQUEST, params_type=ToolCall, handler=self._start),
            NotificationBinding(method=CANCELLED, params_type=ToolCallCancelled, handler=self._cancel),
        ]

    async def _start(self, call: ToolCall) -> None:
        self._calls.start(call)

    async def _cancel(self, cancelled: ToolCallCancelled) -> None:
        self._calls.cancel(cancelled.request_id)

    async def _send(self, response: ToolCallResponse) -> None:
        if self._client is None:
            raise RuntimeError("say callbacks.attach(client) once the client is connected")
        await self._client.session.send_notification(response)


def connect(
    server: Server, tools: ToolsLike = (), *, parallel: int = PARALLEL, **options: Any
) -> AbstractAsyncContextManager[Sandbox]:
    """Connect to callgate; `options` are those of `mcp.client.Client`."""
    callbacks = ToolCallbacks(tools, parallel=parallel)
    return callbacks.serve(Client(_transport(server), extensions=[callbacks], **options))


def _transport(server: Server) -> Any:
    if isinstance(server, str):
        # A result has its value twice, as text and structured: the usual limit, 1 MiB, is soon reached.
        return streamable_http_client(server, max_sse_event_size=None)
    command = Command.of(server)
    return StdioServerParameters(command=command.program, args=command.arguments, env=command.environment)
