"""Running programs."""

from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from callgate_client.calls import Calls
from callgate_client.messages import RUN_PYTHON_CODE
from callgate_client.sessions import Session, list_tools
from callgate_client.tools import Tools
from callgate_client.values import to_json_value


class RunFailure(BaseModel):
    """What ended a program."""

    kind: str
    type: str | None = None
    message: str
    traceback: str | None = None


class CallRecord(BaseModel):
    """A tool call that a program made, and what became of it."""

    request_id: str = Field(alias="requestId")
    tool_name: str = Field(alias="toolName")
    server_name: str | None = Field(default=None, alias="serverName")
    outcome: Literal["answered", "failed", "timed_out", "withdrawn", "refused"]
    duration_ms: float


class Run(BaseModel):
    """How a program ended."""

    status: str
    text: str
    """What a model reads."""
    output: str = ""
    output_truncated: bool = False
    return_value: JsonValue = None
    error: RunFailure | None = None
    tool_calls: list[CallRecord] = []
    duration_ms: float = 0
    cpu_ms: float = 0

    @property
    def succeeded(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "success"

    @classmethod
    def of(cls, result: BaseModel) -> "Run":
        """Read the result of `run_python_code`, as any of the libraries has it."""
        # By the names on the wire: those in Python differ from library to library.
        read = result.model_dump(by_alias=True, mode="json")
        text = "\n".join(block["text"] for block in read["content"] if block["type"] == "text")
        if read.get("structuredContent") is None:
            # The arguments were refused, or a proxy answered.
            failure = {"kind": "refused", "message": text}
            return cls.model_validate({"status": "run-error", "text": text, "error": failure})
        return cls.model_validate({**read["structuredContent"], "text": text})


class RunError(Exception):
    """A program failed."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.text)
        self.run = run


class Sandbox:
    """Runs programs that call tools."""

    def __init__(self, session: Session, calls: Calls) -> None:
        self._session = session
        self._calls = calls

    @property
    def tools(self) -> Tools:
        """What programs may call."""
        return self._calls.tools

    @tools.setter
    def tools(self, tools: Tools) -> None:
        self._calls.tools = tools

    async def description(self) -> str:
        """Ask the server what it tells models of its tool."""
        listed = await list_tools(self._session)
        return next((tool.description or "" for tool in listed if tool.name == RUN_PYTHON_CODE), "")

    async def close(self) -> None:
        """Stop working on calls."""
        await self._calls.close()

    async def run(self, python_code: str, /, **global_variables: object) -> Run:
        """Run a program, with names bound before it starts; raises `RunError` if it fails."""
        arguments: dict[str, Any] = {
            "python_code": python_code,
            "available_tools": self.tools.available_tools(),
            "global_variables": {name: to_json_value(value) for name, value in global_variables.items()},
        }
        run = Run.of(await self._session.call_tool(RUN_PYTHON_CODE, arguments))
        for call in run.tool_calls:
            # One without an outcome of ours may still be on its way here: nobody waits for it.
            if call.outcome not in ("answered", "failed"):
                self._calls.cancel(call.request_id)
        if not run.succeeded:
            raise RunError(run)
        return run
