"""Agents of pydantic-ai, whole loops with a scripted model."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied

import agent_tools
import with_pydantic_ai
from callgate_client.fastmcp import transport
from callgate_client.pydantic_ai import CallgateToolset

pytestmark = pytest.mark.anyio

DEMO = (Path(__file__).parent / "demo.py").read_text("utf-8")
"""The program of the feature request."""


class Script:
    """A model that runs programs, one after the other, and says at the end what came of them."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs
        self.seen: list[AgentInfo] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(info)
        results = [part for part in last_parts(messages) if isinstance(part, ToolReturnPart)]
        step = sum(isinstance(message, ModelResponse) for message in messages)
        if step < len(self.programs):
            call = ToolCallPart("run_python_code", {"python_code": self.programs[step]})
            return ModelResponse(parts=[call])
        return ModelResponse(parts=[TextPart("\n".join(str(part.content) for part in results))])

    @property
    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.seen[0].function_tools}


def last_parts(messages: list[ModelMessage]) -> list[object]:
    return list(messages[-1].parts)


def returned(output: str) -> str:
    """What stands in the section of the value."""
    assert "<status>success</status>" in output, output
    return output.partition("<return_value>\n")[2].partition("\n</return_value>")[0]


async def test_the_demo_of_the_feature_request_runs(server: str | list[str]) -> None:
    agent_tools.MAILS.clear()
    script = Script(DEMO)
    output = await with_pydantic_ai.main(server, script.model)
    assert returned(output) == "2"
    assert [mail["to"] for mail in agent_tools.MAILS] == ["ann@customers.example", "bob@customers.example"]
    # The model has the agent's tools, and need not offer them.
    assert set(script.tools) == {"run_python_code", "web_search", "query_database", "send_email"}
    assert list(script.tools["run_python_code"].parameters_json_schema["properties"]) == ["python_code"]


async def test_the_demo_runs_with_tools_that_only_programs_see(server: str | list[str]) -> None:
    agent_tools.MAILS.clear()
    script = Script(DEMO)
    output = await with_pydantic_ai.hidden_from_the_model(server, script.model)
    assert returned(output) == "2"
    assert len(agent_tools.MAILS) == 2
    assert set(script.tools) == {"run_python_code"}
    description = script.tools["run_python_code"].description
    assert (
        "def web_search(*, query: str, max_results: int = 20, time_filter: str | None = None)" in description
    )
    assert "Send a mail." in description


async def test_calls_that_come_in_the_result_are_made_here(serve: Callable[..., str | list[str]]) -> None:
    agent_tools.MAILS.clear()
    script = Script(DEMO)
    output = await with_pydantic_ai.main(serve("--callbacks", "resume"), script.model)
    assert returned(output) == "2"
    assert len(agent_tools.MAILS) == 2
    assert "resume_python_code" not in script.tools


@dataclass
class Customer:
    name: str
    orders: list[int]


async def orders(ctx: RunContext[Customer]) -> list[int]:
    """The customer's orders."""
    await asyncio.sleep(0.05)
    return ctx.deps.orders


def rename(ctx: RunContext[Customer], name: str) -> str:
    """Rename the customer."""
    ctx.deps.name = name
    return name


async def test_tools_get_the_context_of_their_run(server: str | list[str]) -> None:
    script = Script("rename(name='Bob')\nsum(orders())")
    agent = Agent(
        script.model, deps_type=Customer, toolsets=[CallgateToolset(server, tools=[orders, rename])]
    )
    customer = Customer("Ann", [1, 2])
    result = await agent.run("Rename.", deps=customer)
    assert returned(result.output) == "3"
    assert customer.name == "Bob"
    assert "ctx" not in script.tools["run_python_code"].description


async def test_runs_side_by_side_do_not_mix_their_contexts(server: str | list[str]) -> None:
    agent = Agent(
        Script("orders() + orders()").model,
        deps_type=Customer,
        toolsets=[CallgateToolset(server, tools=[orders])],
    )
    async with agent:
        runs = [agent.run("Orders?", deps=Customer("", [number])) for number in range(8)]
        results = await asyncio.gather(*runs)
    values = [returned(result.output).split() for result in results]
    assert values == [["[", f"{number},", str(number), "]"] for number in range(8)]


async def test_two_programs_of_one_step_run_side_by_side(server: str | list[str]) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(name: str) -> str:
        barrier.wait()
        return name

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            contents = [
                str(part.content) for part in last_parts(messages) if isinstance(part, ToolReturnPart)
            ]
            return ModelResponse(parts=[TextPart(" ".join(map(returned, contents)))])
        programs = [{"python_code": f"meet(name={name!r})"} for name in ("left", "right")]
        return ModelResponse(parts=[ToolCallPart("run_python_code", program) for program in programs])

    agent = Agent(FunctionModel(answer), toolsets=[CallgateToolset(server, tools=[meet])])
    assert (await agent.run("Meet.")).output == "left right"


async def test_what_a_tool_asks_a_model_to_do_again_is_an_error_for_a_program(
    server: str | list[str],
) -> None:
    def look_up(key: str) -> str:
        raise ModelRetry("keys have four letters")

    def crash() -> str:
        raise LookupError("no such customer")

    script = Script(
        "texts = []\n"
        "for tool, arguments in ((look_up, {'key': 'x'}), (crash, {}), (look_up, {})):\n"
        "    try:\n"
        "        tool(**arguments)\n"
        "    except ToolCallError as error:\n"
        "        texts.append(error.message)\n"
        "'; '.join(texts)"
    )
    agent = Agent(
        script.model, toolsets=[CallgateToolset(server)], tools=[Tool(look_up, max_retries=0), crash]
    )
    texts = returned((await agent.run("Look.")).output)
    assert texts.startswith("keys have four letters; no such customer; ")
    assert "key" in texts.rpartition(";")[2]


async def test_a_program_that_fails_goes_back_to_the_model_as_often_as_it_takes(
    server: str | list[str],
) -> None:
    script = Script("1 / 0", "unknown", "for", "'right at last'")
    agent = Agent(script.model, toolsets=[CallgateToolset(server)])
    result = await agent.run("Try.")
    assert returned(result.output) == "right at last"
    told = [
        part.content
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind == "tool-return"
    ]
    assert "ZeroDivisionError" in str(told[0])
    assert "NameError" in str(told[1])


async def test_whole_toolsets_can_be_offered(server: str | list[str]) -> None:
    other = MCPToolset(transport([sys.executable, str(Path(__file__).parent / "other_server.py")]))
    numbers = FunctionToolset[None]()

    @numbers.tool_plain
    def double(number: int) -> int:
        """Double."""
        return number * 2

    script = Script("[other_greet(name='Ann'), double(number=2)]")
    sandbox = CallgateToolset[None](server, toolsets=[other.prefixed("other"), numbers])
    result = await Agent(script.model, toolsets=[sandbox]).run("Greet.")
    assert "Hello, Ann!" in returned(result.output)
    assert "4" in returned(result.output)


async def test_all_other_toolsets_of_the_agent_are_offered(server: str | list[str]) -> None:
    numbers = FunctionToolset[object]([abs_of], id="numbers")
    script = Script("[abs_of(number=-1), dir(tools)]")
    agent = Agent(script.model, toolsets=[numbers, CallgateToolset(server)], output_type=[str, Customer])
    output = returned(str((await agent.run("Count.")).output))
    assert "abs_of" in output
    assert "run_python_code" not in output
    assert [tool.name for tool in script.seen[0].output_tools] == ["final_result"]
    assert "final_result" not in output


def abs_of(number: int) -> int:
    """Without its sign."""
    return abs(number)


async def test_results_beside_the_value_are_for_the_agent_only(server: str | list[str]) -> None:
    def picture() -> ToolReturn:
        return ToolReturn(return_value={"pixels": 4}, content="a picture", metadata="secret")

    script = Script("picture()['pixels']")
    result = await Agent(script.model, toolsets=[CallgateToolset(server, tools=[picture])]).run("Look.")
    assert returned(result.output) == "4"
    run = next(part.metadata for part in result.all_messages()[2].parts if isinstance(part, ToolReturnPart))
    assert run["return_value"] == 4
    assert run["tool_calls"][0]["outcome"] == "answered"


def careful(ctx: RunContext[object]) -> str:
    """Needs an approval."""
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    return "done"


TRY_CAREFUL = "try:\n    text = careful()\nexcept ToolCallError as error:\n    text = error.message\ntext"


async def test_a_tool_that_needs_an_approval_is_an_error(server: str | list[str]) -> None:
    agent = Agent(Script(TRY_CAREFUL).model, toolsets=[CallgateToolset(server, tools=[careful])])
    assert "approved" in returned((await agent.run("Do.")).output)


@pytest.mark.parametrize(("approval", "said"), [(True, "done"), (ToolDenied("not today"), "not today")])
async def test_a_tool_that_a_handler_approves_runs(
    server: str | list[str], approval: bool | ToolDenied, said: str
) -> None:
    def handle(ctx: RunContext[object], requests: DeferredToolRequests) -> DeferredToolResults:
        return DeferredToolResults(approvals={call.tool_call_id: approval for call in requests.approvals})

    agent = Agent(
        Script(TRY_CAREFUL).model,
        toolsets=[CallgateToolset(server, tools=[careful])],
        capabilities=[HandleDeferredToolCalls(handle)],
    )
    assert returned((await agent.run("Do.")).output) == said


async def test_giving_an_agent_up_gives_its_program_and_calls_up(server: str | list[str]) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    agent = Agent(Script("wait()").model, toolsets=[CallgateToolset(server, tools=[wait, abs_of])])
    async with agent:
        running = asyncio.create_task(agent.run("Wait."))
        await asyncio.wait_for(started.wait(), 20)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.wait_for(cancelled.wait(), 10)
        agent_after = Agent(Script("abs_of(number=-2)").model, toolsets=agent.toolsets)
        assert returned((await agent_after.run("Count.")).output) == "2"


async def test_a_toolset_may_have_a_prefix(server: str | list[str]) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(
                parts=[
                    TextPart(str(part.content))
                    for part in last_parts(messages)
                    if isinstance(part, ToolReturnPart)
                ]
            )
        return ModelResponse(parts=[ToolCallPart("py_run_python_code", {"python_code": "abs_of(number=-3)"})])

    agent = Agent(
        FunctionModel(answer), toolsets=[CallgateToolset[None](server).prefixed("py")], tools=[abs_of]
    )
    assert returned((await agent.run("Count.")).output) == "3"


async def test_a_function_may_make_the_transports(start_http: Callable[..., str]) -> None:
    url = start_http()
    sandbox = CallgateToolset[None](lambda: transport(url), tools=[abs_of])
    result = await Agent(Script("abs_of(number=-5)").model, toolsets=[sandbox]).run("Count.")
    assert returned(result.output) == "5"


def test_an_agent_without_a_loop_of_its_own_runs_twice(server: str | list[str]) -> None:
    agent = Agent(Script("abs_of(number=-6)").model, toolsets=[CallgateToolset(server)], tools=[abs_of])
    assert returned(agent.run_sync("Count.").output) == "6"
    assert returned(agent.run_sync("Count.").output) == "6"
