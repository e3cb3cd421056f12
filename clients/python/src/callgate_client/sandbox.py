"""Running programs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from callgate_client.calls import MAX_RESULT, Answer, Calls
from callgate_client.messages import RESUME_PYTHON_CODE, RUN_PYTHON_CODE, Waiting
from callgate_client.sessions import Session, list_tools
from callgate_client.tools import Tools
from callgate_client.values import to_json_bytes, to_json_value


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


@contextmanager
def run_errors_alone() -> Iterator[None]:
    """Around connections: a `RunError` that leaves them comes without the groups of their task groups."""
    try:
        yield
    except BaseException as error:
        inner: BaseException = error
        while only := _only(inner):
            inner = only
        if inner is error or not isinstance(inner, RunError):
            raise
        raise inner from inner.__cause__


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

    async def call(self, arguments: dict[str, Any]) -> Any:
        """Call `run_python_code`, and return its result as the library has it.

        Where the server gives calls in the result, they are made and the program continued until it ends.
        """
        result = await self._session.call_tool(RUN_PYTHON_CODE, arguments)
        answers: dict[str, Answer] = {}
        while waiting := _waiting(result):
            new = [call for call in waiting.pending if call.request_id not in answers]
            if new:
                answers.update((answer["requestId"], answer) for answer in await self._calls.answers(new))
            resumed = {"handle": waiting.handle, "results": _take(answers, waiting)}
            result = await self._session.call_tool(RESUME_PYTHON_CODE, resumed)
        return result

    async def run(self, python_code: str, /, **global_variables: object) -> Run:
        """Run a program, with names bound before it starts; raises `RunError` if it fails."""
        arguments: dict[str, Any] = {
            "python_code": python_code,
            "available_tools": self.tools.available_tools(),
            "global_variables": {name: to_json_value(value) for name, value in global_variables.items()},
        }
        run = Run.of(await self.call(arguments))
        for call in run.tool_calls:
            # One without an outcome of ours may still be on its way here: nobody waits for it.
            if call.outcome not in ("answered", "failed"):
                self._calls.cancel(call.request_id)
        if not run.succeeded:
            raise RunError(run)
        return run


def _only(group: BaseException) -> BaseException | None:
    """Return the exception in a group of one."""
    exceptions: tuple[BaseException, ...] = getattr(group, "exceptions", ())
    return exceptions[0] if len(exceptions) == 1 else None


def _waiting(result: Any) -> Waiting | None:
    """Read what a program waits for, if it does."""
    structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    try:
        return Waiting.model_validate(structured)
    except ValidationError:
        return None


def _take(answers: dict[str, Answer], waiting: Waiting) -> list[Answer]:
    """Take out as many answers as one message may have; what is left comes with the next."""
    taken: list[Answer] = []
    size = 0
    for call in waiting.pending:
        size += len(to_json_bytes(answers[call.request_id]))
        if taken and size > MAX_RESULT:
            break
        taken.append(answers.pop(call.request_id))
    return taken
