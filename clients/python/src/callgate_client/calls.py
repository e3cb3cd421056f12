"""Calls under way."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from callgate_client.messages import ToolCall, ToolCallResponse
from callgate_client.parameters import problems
from callgate_client.tools import Tool, Tools
from callgate_client.values import to_json_bytes

PARALLEL = 64
"""How many calls are worked on at once, unless said otherwise."""

MAX_RESULT = 16 * 1024 * 1024
"""What callgate takes as one result unless its `--max-tool-result` says otherwise."""

Answer: TypeAlias = dict[str, Any]
"""`result` or `error`, and `requestId` where it is sent."""

T = TypeVar("T")

Send: TypeAlias = Callable[[ToolCallResponse], Awaitable[None]]

logger = logging.getLogger("callgate_client")


class Calls:
    """Answers tool calls, each in a task of its own."""

    def __init__(self, tools: Tools, send: Send, *, parallel: int = PARALLEL) -> None:
        self.tools = tools
        self._send = send
        self._places = asyncio.Semaphore(parallel)
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        # Clients may hand a cancellation over before the call that it is for.
        self._cancelled_early: deque[str] = deque(maxlen=1000)

    def start(self, call: ToolCall) -> None:
        """Begin to work on a call; clients read nothing more until this returns."""
        if call.request_id in self._cancelled_early or call.request_id in self._tasks:
            return
        self._begin(call, self._send_answer(self.tools, call))

    async def answers(self, calls: Iterable[ToolCall]) -> list[Answer]:
        """Work on calls side by side, and return their answers."""
        tasks = {call.request_id: self._begin(call, self._answer(self.tools, call)) for call in calls}
        try:
            await asyncio.wait(tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
        stopped = {"error": "the agent has stopped working on it"}
        return [
            {"requestId": request_id, **(stopped if task.cancelled() else task.result())}
            for request_id, task in tasks.items()
        ]

    def cancel(self, request_id: str) -> None:
        """Stop working on a call: nobody waits for its answer."""
        if task := self._tasks.get(request_id):
            task.cancel()
        else:
            self._cancelled_early.append(request_id)

    async def close(self) -> None:
        """Stop working on all calls."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, call: ToolCall, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=f"callgate: {call.tool_name}")
        self._tasks[call.request_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call.request_id, None))
        return task

    async def _send_answer(self, tools: Tools, call: ToolCall) -> None:
        async with self._places:
            answer = await _answer(tools, call)
            try:
                await self._send(ToolCallResponse(params={"requestId": call.request_id, **answer}))
            except Exception:
                logger.warning("the answer to %r could not be sent", call.tool_name, exc_info=True)

    async def _answer(self, tools: Tools, call: ToolCall) -> Answer:
        async with self._places:
            return await _answer(tools, call)


async def _answer(tools: Tools, call: ToolCall) -> Answer:
    """Call the tool; return `result` or `error`."""
    tool = tools.get(call.tool_name)
    if tool is None:
        return {"error": f"there is no tool {call.tool_name!r}; there are: {', '.join(tools) or 'none'}"}
    # A task of its own tells a tool that was cancelled from inside from a call that nobody waits for.
    work = asyncio.ensure_future(_contained(tool, call.arguments))
    try:
        await asyncio.wait([work])
    finally:
        work.cancel()
    try:
        return {"result": _result(work.result())}
    except (Exception, asyncio.CancelledError) as error:
        return {"error": error_text(error)}


async def _contained(tool: Tool, arguments: dict[str, Any]) -> object:
    try:
        return await tool.call(arguments)
    except SystemExit as error:  # would end the loop
        raise RuntimeError(f"it wanted to exit: {error}") from error


def _result(value: object) -> object:
    try:
        result = to_json_bytes(value)
    except TypeError as error:
        raise TypeError(f"what it returned can't be sent: {error}") from error
    if len(result) > MAX_RESULT:
        raise ValueError(f"what it returned has {len(result)} bytes as JSON; callgate takes {MAX_RESULT}")
    return from_json(result)


def error_text(error: BaseException) -> str:
    """Say what a program is told of an exception: its text, or its type where it has none."""
    if isinstance(error, ValidationError):
        return f"{error.title}: {problems(error)}"
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if inner:  # a group's own text only counts them
        return "; ".join(map(error_text, inner))
    return str(error) or type(error).__name__
