"""What holds with every library. A test file of a library imports it, and says how to connect."""

import asyncio
import datetime
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from callgate_client import RunError, Sandbox, Tool, Tools
from callgate_client.sessions import Session, SessionOwner

Connect = Callable[..., AbstractAsyncContextManager[Sandbox]]

GATHER = "import asyncio\nawait asyncio.gather(*(meet.aio(name=n) for n in ('left', 'right')))"


@pytest.fixture(autouse=True)
def _in_a_loop(anyio_backend: str) -> None:
    """Makes every test here one that anyio runs."""


def add(a: int, b: int = 2) -> dict[str, int | None]:
    """Add two numbers."""
    return {"sum": a + b, "carry": None}


def waiting() -> tuple[Callable[[], Awaitable[None]], asyncio.Event, asyncio.Event]:
    """A tool that waits until it is cancelled, and what tells that it was started and cancelled."""
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        """Waits."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    return wait, started, cancelled


@pytest.mark.anyio
async def test_a_program_calls_a_plain_function(connect: Connect, server: object) -> None:
    async with connect(server, [add]) as sandbox:
        run = await sandbox.run("print('adding')\nadd(a=1)")
    assert run.return_value == {"sum": 3, "carry": None}
    assert run.output == "adding\n"
    assert [(call.tool_name, call.outcome) for call in run.tool_calls] == [("add", "answered")]
    assert "<return_value>" in run.text


@pytest.mark.anyio
async def test_positional_arguments_follow_the_signature(connect: Connect, server: object) -> None:
    async with connect(server, [add]) as sandbox:
        run = await sandbox.run("add(3, 4)")
    assert run.return_value == {"sum": 7, "carry": None}


@pytest.mark.anyio
async def test_a_program_calls_an_async_function(connect: Connect, server: object) -> None:
    async def double(number: float) -> float:
        await asyncio.sleep(0)
        return number * 2

    async with connect(server, [double]) as sandbox:
        run = await sandbox.run("double(number=1.5)")
    assert run.return_value == 3.0


@pytest.mark.anyio
async def test_calls_of_async_functions_run_side_by_side(connect: Connect, server: object) -> None:
    barrier = 0
    met = asyncio.Event()

    async def meet(name: str) -> str:
        nonlocal barrier
        barrier += 1
        if barrier == 2:
            met.set()
        await met.wait()
        return name

    async with connect(server, [meet]) as sandbox:
        run = await sandbox.run(GATHER)
    assert run.return_value == ["left", "right"]


@pytest.mark.anyio
async def test_calls_of_blocking_functions_run_side_by_side(connect: Connect, server: object) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(name: str) -> str:
        barrier.wait()
        return name

    async with connect(server, [meet]) as sandbox:
        run = await sandbox.run(GATHER)
    assert run.return_value == ["left", "right"]


@pytest.mark.anyio
async def test_no_more_calls_than_said_are_worked_on_at_once(connect: Connect, server: object) -> None:
    at_once = most = 0

    async def work(number: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return number

    async with connect(server, [work], parallel=3) as sandbox:
        run = await sandbox.run(
            "import asyncio\nawait asyncio.gather(*(work.aio(number=n) for n in range(20)))"
        )
    assert run.return_value == list(range(20))
    assert most == 3


@pytest.mark.anyio
async def test_a_thousand_calls_at_once_are_all_answered(connect: Connect, server: object) -> None:
    async def same(number: int) -> int:
        return number

    async with connect(server, [same]) as sandbox:
        run = await sandbox.run(
            "import asyncio\nsum(await asyncio.gather(*(same.aio(number=n) for n in range(1000))))"
        )
    assert run.return_value == 499500


@pytest.mark.anyio
async def test_exceptions_become_errors_with_their_text(connect: Connect, server: object) -> None:
    def fail(how: str) -> None:
        raise {"text": LookupError("no such customer"), "none": WithoutText(), "exit": SystemExit("usage")}[
            how
        ]

    code = """
texts = []
for how in ("text", "none", "exit"):
    try:
        fail(how=how)
    except ToolCallError as error:
        texts.append(error.message)
texts
"""
    async with connect(server, [fail]) as sandbox:
        run = await sandbox.run(code)
    assert run.return_value == ["no such customer", "WithoutText", "it wanted to exit: usage"]


class WithoutText(Exception):  # noqa: N818
    pass


@pytest.mark.anyio
async def test_wrong_arguments_are_told(connect: Connect, server: object) -> None:
    code = """
arguments = {"a": "one", "c": 3}
try:
    add(**arguments)
except ToolCallError as error:
    print(error.message)
"""
    async with connect(server, [add]) as sandbox:
        run = await sandbox.run(code)
    assert "`a`" in run.output
    assert "`c`" in run.output


@pytest.mark.anyio
async def test_results_that_are_not_json_are_converted(connect: Connect, server: object) -> None:
    def today() -> dict[str, object]:
        return {"day": datetime.date(2026, 1, 2), "tags": {"only"}, "pair": (1, 2), "raw": b"\xff"}

    async with connect(server, [today]) as sandbox:
        run = await sandbox.run("today()")
    assert run.return_value == {"day": "2026-01-02", "tags": ["only"], "pair": [1, 2], "raw": "/w=="}


@pytest.mark.anyio
async def test_results_that_can_not_be_json_are_refused_clearly(connect: Connect, server: object) -> None:
    def thing() -> object:
        return threading.Lock()

    async with connect(server, [thing]) as sandbox:
        run = await sandbox.run("try:\n    thing()\nexcept ToolCallError as error:\n    print(error)")
    assert (
        run.output == "Tool call 'thing' failed: what it returned can't be sent: _thread.lock is not JSON\n"
    )


@pytest.mark.anyio
async def test_arguments_become_what_the_annotations_say(connect: Connect, server: object) -> None:
    def weekday(day: datetime.date) -> str:
        return day.strftime("%A")

    async with connect(server, [weekday]) as sandbox:
        run = await sandbox.run("weekday(day='2026-01-02')")
    assert run.return_value == "Friday"


@pytest.mark.anyio
async def test_variables_are_bound_before_the_program_starts(connect: Connect, server: object) -> None:
    async with connect(server) as sandbox:
        run = await sandbox.run("f'{name} {day}'", name="Ann", day=datetime.date(2026, 1, 2))
    assert run.return_value == "Ann 2026-01-02"


@pytest.mark.anyio
async def test_a_program_that_fails_raises_with_all_that_is_known(connect: Connect, server: object) -> None:
    async with connect(server, [add]) as sandbox:
        with pytest.raises(RunError, match="ZeroDivisionError") as caught:
            await sandbox.run("add(a=1)\n1 / 0")
        assert (await sandbox.run("'still here'")).return_value == "still here"
    run = caught.value.run
    assert run.error
    assert (run.error.kind, run.error.type, run.error.message) == (
        "exception",
        "ZeroDivisionError",
        "division by zero",
    )
    assert run.tool_calls[0].outcome == "answered"


@pytest.mark.anyio
async def test_an_error_that_leaves_the_connection_is_caught_around_it(
    connect: Connect, server: object
) -> None:
    with pytest.raises(RunError, match="ZeroDivisionError"):
        async with connect(server) as sandbox:
            await sandbox.run("1 / 0")


RESUME = ("--callbacks", "resume")
"""A server that gives calls in the result, as one is set up for desktop clients."""


@pytest.mark.anyio
async def test_calls_that_come_in_the_result_are_made_side_by_side(
    connect: Connect, serve: Callable[..., object]
) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(name: str) -> str:
        barrier.wait()
        return name

    code = f"print('begun')\nadd(a=1)\nboth = {GATHER.splitlines()[1]}\n[add(3, 4), both]"
    async with connect(serve(*RESUME), [meet, add]) as sandbox:
        run = await sandbox.run(f"import asyncio\n{code}")
    assert run.return_value == [{"sum": 7, "carry": None}, ["left", "right"]]
    assert run.output == "begun\n"
    assert [call.outcome for call in run.tool_calls] == ["answered"] * 4


@pytest.mark.anyio
async def test_calls_in_the_result_convert_and_fail_as_others(
    connect: Connect, serve: Callable[..., object]
) -> None:
    def weekday(day: datetime.date) -> set[str]:
        if day.year < 2000:
            raise LookupError("too long ago")
        return {day.strftime("%A")}

    code = """
texts = []
for day in ("2026-01-02", "1999-01-02", "soon"):
    try:
        texts.append(weekday(day=day))
    except ToolCallError as error:
        texts.append(error.message)
texts
"""
    async with connect(serve(*RESUME), [weekday]) as sandbox:
        run = await sandbox.run(code)
        with pytest.raises(RunError, match="too long ago"):
            await sandbox.run("weekday(day='1999-01-02')")
    assert isinstance(run.return_value, list)
    assert run.return_value[:2] == [["Friday"], "too long ago"]
    assert "day: Input should be a valid date" in str(run.return_value[2])


@pytest.mark.anyio
async def test_more_calls_than_a_result_names_and_more_results_than_a_message_has_are_followed(
    connect: Connect, serve: Callable[..., object]
) -> None:
    async def repeat(text: str, times: int) -> str:
        return text * times

    code = """
import asyncio
texts = await asyncio.gather(*(repeat.aio(text="x", times=times) for _ in range(calls)))
sum(map(len, texts))
"""
    async with connect(serve(*RESUME), [repeat]) as sandbox:
        many = await sandbox.run(code, times=1, calls=250)
        large = await sandbox.run(code, times=9_000_000, calls=4)
    assert (many.return_value, large.return_value) == (250, 36_000_000)


@pytest.mark.anyio
async def test_closing_a_sandbox_gives_up_the_calls_of_a_result(
    connect: Connect, serve: Callable[..., object]
) -> None:
    wait, started, cancelled = waiting()

    async with connect(serve(*RESUME), [wait]) as sandbox:
        running = asyncio.create_task(sandbox.run("wait()"))
        await started.wait()
        await sandbox.close()
        assert cancelled.is_set()
        with pytest.raises(RunError, match="the agent has stopped working on it"):
            await running
        cancelled.clear()
        started.clear()
        running = asyncio.create_task(sandbox.run("wait()"))
        await started.wait()
        running.cancel()
        await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.anyio
async def test_tools_of_another_server_are_called_through_its_session(
    connect: Connect, server: object, other_session: SessionOwner | Session
) -> None:
    tools = Tools([add])
    await tools.add_session(other_session, prefix="other_", server_name="other")
    code = """
failure = None
try:
    other_break_down()
except ToolCallError as error:
    failure = error.message
greetings = [other_greet(name="Ann"), call_mcp_tool("other", "other_greet", name="Bob")]
[*greetings, other_measure(text="four"), add(a=1), failure]
"""
    async with connect(server, tools) as sandbox:
        run = await sandbox.run(code)
    assert isinstance(run.return_value, list)
    *values, failure = run.return_value
    # A server that declares a schema for text wraps it; what programs get is what it said.
    greetings = [
        value["result"] if isinstance(value, dict) and "result" in value else value for value in values
    ]
    assert greetings == [
        "Hello, Ann!",
        "Hello, Bob!",
        {"letters": 4, "pages": None},
        {"sum": 3, "carry": None},
    ]
    assert "break_down" in str(failure)


@pytest.mark.anyio
async def test_a_call_that_nobody_waits_for_is_cancelled(
    connect: Connect, serve: Callable[..., object]
) -> None:
    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with connect(serve("--tool-timeout", "300ms"), [wait]) as sandbox:
        run = await sandbox.run("try:\n    wait()\nexcept ToolCallError as error:\n    print(error)")
        await asyncio.wait_for(cancelled.wait(), 10)
    assert run.output == "Tool call 'wait' failed: Tool call timeout: wait\n"


@pytest.mark.anyio
async def test_a_blocking_function_that_nobody_waits_for_holds_nothing_up(
    connect: Connect, serve: Callable[..., object]
) -> None:
    release = threading.Event()

    def block() -> None:
        release.wait(60)

    # Told to notify: `mcp` 1 can't declare that it answers, and the first call here goes unanswered.
    options = ("--tool-timeout", "300ms", "--callbacks", "notify")
    async with connect(serve(*options), [block, add], parallel=1) as sandbox:
        run = await sandbox.run("try:\n    block()\nexcept ToolCallError:\n    pass\nadd(a=1)['sum']")
    release.set()
    assert run.return_value == 3


@pytest.mark.anyio
async def test_closing_a_sandbox_cancels_what_is_under_way(
    connect: Connect, serve: Callable[..., object]
) -> None:
    wait, started, cancelled = waiting()

    async with connect(serve("--tool-timeout", "1s"), [wait]) as sandbox:
        running = asyncio.create_task(sandbox.run("wait()"))
        await started.wait()
        await sandbox.close()
        assert cancelled.is_set()
        with pytest.raises(RunError, match="timeout"):
            await running


@pytest.mark.anyio
async def test_programs_side_by_side_share_a_connection(connect: Connect, server: object) -> None:
    async def same(number: int) -> int:
        await asyncio.sleep(0.01)
        return number

    async with connect(server, [same]) as sandbox:
        runs = await asyncio.gather(*(sandbox.run("same(number=n)", n=n) for n in range(10)))
    assert [run.return_value for run in runs] == list(range(10))


@pytest.mark.anyio
async def test_large_values_pass_both_ways(connect: Connect, server: object) -> None:
    def repeat(text: str, times: int) -> str:
        return text * times

    async with connect(server, [repeat]) as sandbox:
        run = await sandbox.run("len(repeat(text='x' * 400_000, times=30))")
    assert run.return_value == 12_000_000


@pytest.mark.anyio
async def test_a_result_beyond_the_limit_is_refused_clearly(connect: Connect, server: object) -> None:
    def much() -> str:
        return "x" * 17 * 1024 * 1024

    async with connect(server, [much]) as sandbox:
        run = await sandbox.run("try:\n    much()\nexcept ToolCallError as error:\n    print(error)")
        assert (await sandbox.run("'still here'")).return_value == "still here"
    assert "what it returned has 17825794 bytes as JSON; callgate takes 16777216" in run.output


@pytest.mark.anyio
async def test_a_schema_may_be_given_instead_of_a_signature(connect: Connect, server: object) -> None:
    def anything(**arguments: object) -> dict[str, object]:
        return arguments

    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    tool = Tool.from_function(anything, name="web-search", parameters=schema)
    async with connect(server, [tool]) as sandbox:
        run = await sandbox.run("call_tool('web-search', **{'from': 'here'})")
    assert run.return_value == {"from": "here"}


@pytest.mark.anyio
async def test_a_tool_added_later_is_offered_to_the_next_program(connect: Connect, server: object) -> None:
    tools = Tools()
    async with connect(server, tools) as sandbox:
        with pytest.raises(RunError, match="add"):
            await sandbox.run("add(a=1)")
        tools.add(add)
        assert (await sandbox.run("add(a=1)")).succeeded


@pytest.mark.anyio
async def test_a_function_that_blocks_does_not_stop_the_loop(connect: Connect, server: object) -> None:
    def nap() -> None:
        time.sleep(0.5)

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async with connect(server, [nap]) as sandbox:
        ticking = asyncio.create_task(tick())
        await sandbox.run("nap()")
        ticking.cancel()
    assert ticks > 10


@pytest.mark.anyio
async def test_leaving_ends_the_server_that_was_started(
    connect: Connect, program: str, tmp_path: Path
) -> None:
    note = tmp_path / "id"
    async with connect(["sh", "-c", f"echo $$ > '{note}'; exec '{program}'"]) as sandbox:
        assert (await sandbox.run("1 + 1")).return_value == 2
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
