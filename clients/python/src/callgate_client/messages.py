"""What goes over the wire for tool calls."""

from typing import Any, Literal

from pydantic import BaseModel, Field

EXTENSION = "callgate/tool-callbacks"
"""The capability extension that says: this client answers tool calls."""

RUN_PYTHON_CODE = "run_python_code"
"""The server's tool."""

RESUME_PYTHON_CODE = "resume_python_code"
"""The one that continues a program whose calls came in a result."""

REQUEST: Literal["notifications/tool_call_request"] = "notifications/tool_call_request"
CANCELLED: Literal["notifications/tool_call_cancelled"] = "notifications/tool_call_cancelled"


class ToolCall(BaseModel):
    """A program in the sandbox calls a tool."""

    request_id: str = Field(alias="requestId")
    tool_name: str = Field(alias="toolName")
    arguments: dict[str, Any] = Field(default_factory=dict)
    server_name: str | None = Field(default=None, alias="serverName")


class ToolCallCancelled(BaseModel):
    """Nobody waits for the answer any more."""

    request_id: str = Field(alias="requestId")
    reason: str | None = None


class Waiting(BaseModel):
    """A program whose calls came in a result, as from a server with `--callbacks resume`."""

    status: Literal["pending"]
    handle: str
    pending: list[ToolCall] = Field(min_length=1)


class ToolCallRequestNotification(BaseModel):
    """A call, with its envelope."""

    method: Literal["notifications/tool_call_request"]
    params: ToolCall


class ToolCallCancelledNotification(BaseModel):
    """A cancellation, with its envelope."""

    method: Literal["notifications/tool_call_cancelled"]
    params: ToolCallCancelled


class ToolCallResponse(BaseModel):
    """The answer to a call."""

    method: Literal["notifications/tool_call_response"] = "notifications/tool_call_response"
    # Not a model of its own: clients leave out what is None in a model, and a result may be None.
    params: dict[str, Any]
