"""What becomes of a call on the client's side."""

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel, Field

from callgate_client import Sandbox, Tools
from callgate_client.calls import Calls
from callgate_client.messages import ToolCall, ToolCallResponse

pytestmark = pytest.mark.anyio


class Post:
    """Where answers go."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(self, response: ToolCallResponse) -> None:
        await self.sent.put(response.params)


async def answer_of(tool: Any, name: str = "tool") -> dict[str, Any]:
    tools, post = Tools(), Post()
    tools.add(tool, name="tool")
    Calls(tools, post.send).start(ToolCall(requestId="1", toolName=name))
    return await asyncio.wait_for(post.sent.get(), 10)


async def test_an_unknown_tool_is_told_with_what_there_is() -> None:
    answer = await answer_of(lambda: 1, "other")
    assert answer == {"requestId": "1", "error": "there is no tool 'other'; there are: tool"}


async def test_a_result_of_none_is_a_result() -> None:
    assert await answer_of(lambda: None) == {"requestId": "1", "result": None}


async def test_a_tool_that_is_cancelled_from_inside_fails() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    assert await answer_of(give_up) == {"requestId": "1", "error": "CancelledError"}


async def test_an_invalid_model_inside_a_tool_is_told_in_a_line() -> None:
    class Order(BaseModel):
        number: int

    def validate() -> Order:
        return Order.model_validate({})

    assert await answer_of(validate) == {"requestId": "1", "error": "Order: number: Field required"}


class GroupError(Exception):
    """As a `TaskGroup` raises it."""

    exceptions = (LookupError("no such customer"), OSError())


async def test_a_group_of_exceptions_is_told_one_by_one() -> None:
    async def fail() -> None:
        raise GroupError("2 sub-exceptions")

    assert (await answer_of(fail))["error"] == "no such customer; OSError"


async def test_a_cancellation_that_overtakes_its_call_still_counts() -> None:
    post = Post()
    calls = Calls(Tools([asyncio.sleep]), post.send)
    calls.tools = Tools()
    calls.cancel("1")
    calls.start(ToolCall(requestId="1", toolName="tool"))
    calls.start(ToolCall(requestId="2", toolName="tool"))
    assert (await asyncio.wait_for(post.sent.get(), 10))["requestId"] == "2"
    assert post.sent.empty()


async def test_a_call_that_comes_twice_is_worked_on_once() -> None:
    post = Post()
    calls = Calls(Tools(), post.send)
    for _ in range(2):
        calls.start(ToolCall(requestId="1", toolName="tool"))
    await post.sent.get()
    await asyncio.sleep(0.01)
    assert post.sent.empty()


async def test_an_answer_that_can_not_be_sent_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logged = asyncio.Event()

    async def fail(response: ToolCallResponse) -> None:
        asyncio.get_running_loop().call_soon(logged.set)
        raise ConnectionError("gone")

    with caplog.at_level(logging.WARNING, "callgate_client"):
        Calls(Tools(), fail).start(ToolCall(requestId="1", toolName="tool"))
        await asyncio.wait_for(logged.wait(), 10)
        await asyncio.sleep(0)
    assert "the answer to 'tool' could not be sent" in caplog.text


class Answered(BaseModel):
    content: list[Any] = []
    structured: dict[str, Any] = Field(alias="structuredContent")


class Over:
    """A session whose runs end before all of their calls have come."""

    async def list_tools(self, *, params: Any) -> Any:
        raise AssertionError

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Answered:
        call = {"requestId": "1", "toolName": "tool", "outcome": "withdrawn", "duration_ms": 1}
        return Answered(structuredContent={"status": "success", "tool_calls": [call]})


async def test_a_call_that_comes_after_its_run_is_over_is_not_worked_on() -> None:
    post = Post()
    calls = Calls(Tools(), post.send)
    await Sandbox(Over(), calls).run("")
    calls.start(ToolCall(requestId="1", toolName="tool"))
    calls.start(ToolCall(requestId="2", toolName="tool"))
    assert (await asyncio.wait_for(post.sent.get(), 10))["requestId"] == "2"
    assert post.sent.empty()
