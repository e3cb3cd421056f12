"""asyncio without sockets or threads."""

import asyncio
import unittest

import tests  # noqa: F401  (puts the fake host in place)
from _callgate import loop
from tests import fake_host
from tests.fake_host import Parallel, run

IDLE = {"wait": {"ok": True, "done": []}}


class LoopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # As `warm` does in the guest; taken back so that other tests keep the stock loop.
        policy = getattr(asyncio, "_DefaultEventLoopPolicy", None) or asyncio.DefaultEventLoopPolicy
        kept = [(owner, name, owner.__dict__.get(name)) for owner, name in (
            (policy, "_loop_factory"), (policy, "get_event_loop"),
            (asyncio, "SelectorEventLoop"), (asyncio, "EventLoop"))]

        def restore():
            for owner, name, value in kept:
                delattr(owner, name) if value is None else setattr(owner, name, value)

        cls.addClassCleanup(restore)
        loop.install()

    def check(self, source, value, tools=("a", "b"), **answers):
        result = run(source, tools, **{**IDLE, **answers})
        self.assertIsNone(result.error, result.error)
        self.assertEqual(result.value, value)

    def test_a_top_level_await_works(self):
        self.check("import asyncio\nawait asyncio.sleep(0, 5)", 5)
        self.check("import asyncio\nx = await asyncio.sleep(0, 5)\nx + 1", 6)
        self.check("import asyncio\nawait asyncio.sleep(0)\nx = 1", None)

    def test_top_level_async_for_and_with_work(self):
        self.check("async def g():\n    yield 1\n    yield 2\nr = []\nasync for x in g():\n    r.append(x)\nr", [1, 2])
        self.check("async def g():\n    yield 1\n[x async for x in g()]", [1])

    def test_a_coroutine_nobody_awaits_is_just_a_value(self):
        result = run("async def f(): pass\nc = f()\nc.close()\nc")
        self.assertIn("<coroutine object f", result.value)

    def test_all_of_an_awaiting_source_runs_in_the_loop(self):
        self.check("import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().is_running()", True)

    def test_every_way_to_get_a_loop_gets_this_one(self):
        self.check("import asyncio\nasyncio.run(asyncio.sleep(0, 1))", 1)
        self.check("import asyncio\nwith asyncio.Runner() as r:\n    x = r.run(asyncio.sleep(0, 2))\nx", 2)
        self.check("import asyncio\nl = asyncio.new_event_loop()\nx = l.run_until_complete(asyncio.sleep(0, 3))\nl.close()\nx", 3)
        self.check("import asyncio\nl = asyncio.get_event_loop()\nx = l.run_until_complete(asyncio.sleep(0, 4))\nl.close()\nx", 4)
        self.check("import asyncio\nwith asyncio.Runner(loop_factory=asyncio.EventLoop) as r:\n    x = r.run(asyncio.sleep(0, 5))\nx", 5)
        self.check("import asyncio\nasyncio.set_event_loop_policy(None)\nasyncio.run(asyncio.sleep(0, 6))", 6)
        self.check("import asyncio\nasync def f(): return type(asyncio.get_running_loop()).__name__\nasyncio.run(f())", "GateLoop")

    def test_a_selector_given_to_a_loop_changes_nothing(self):
        self.check(
            "import asyncio, selectors\nl = asyncio.SelectorEventLoop(selectors.SelectSelector())\n"
            "x = l.run_until_complete(asyncio.sleep(0, 1))\nl.close()\nx", 1)

    def test_a_closed_loop_runs_nothing_in_an_executor(self):
        result = run("import asyncio\nl = asyncio.new_event_loop()\nl.close()\nl.run_in_executor(None, print)")
        self.assertIn("Event loop is closed", result.error["message"])

    def test_a_debugged_loop_refuses_a_coroutine_function_for_an_executor(self):
        result = run(
            "import asyncio\nasync def f(): pass\nl = asyncio.new_event_loop()\nl.set_debug(True)\n"
            "try:\n    l.run_in_executor(None, f)\nfinally:\n    l.close()")
        self.assertIn("coroutines cannot be used with run_in_executor()", result.error["message"])

    def test_asyncio_run_inside_a_running_loop_is_the_usual_error(self):
        result = run("import asyncio\nawait asyncio.sleep(0)\nc = asyncio.sleep(0)\ntry:\n    asyncio.run(c)\nfinally:\n    c.close()", **IDLE)
        self.assertIn("cannot be called from a running event loop", result.error["message"])

    def test_calls_run_in_parallel(self):
        host = Parallel({"a": 1, "b": 2}, order="last first")
        source = "import asyncio\nawait asyncio.gather(a.aio(x=1), call_tool_async('b', x=2))"
        self.check(source, [1, 2], **host.script())
        ops = [request["op"] for request in fake_host.requests]
        self.assertEqual(ops[:4], ["start", "submit", "submit", "wait"])
        self.assertEqual(fake_host.sent("submit")[1]["arguments"], {"x": 2})
        self.assertEqual(fake_host.sent("cancel"), [])

    def test_task_groups_take_the_twins(self):
        host = Parallel({"a": 1, "b": 2})
        source = (
            "import asyncio\nasync with asyncio.TaskGroup() as g:\n"
            "    t = g.create_task(a.aio()), g.create_task(b.aio())\n[x.result() for x in t]"
        )
        self.check(source, [1, 2], **host.script())

    def test_a_failed_call_raises_where_it_is_awaited(self):
        host = Parallel({"a": {"ok": False, "message": "no", "request_id": "r"}})
        result = run("await a.aio()", ["a"], **host.script())
        self.assertEqual(result.error["message"], "Tool call 'a' failed: no")
        self.assertEqual(result.error["traceback"].count("File "), 1)

    def test_a_call_refused_at_once_raises(self):
        result = run("await a.aio()", ["a"], submit={"ok": False, "message": "not offered"}, **IDLE)
        self.assertEqual(result.error["message"], "Tool call 'a' failed: not offered")

    def test_cancelling_the_task_withdraws_the_call(self):
        source = (
            "import asyncio\ntry:\n    await asyncio.wait_for(a.aio(), 0.01)\n"
            "except TimeoutError:\n    r = 'late'\nr"
        )
        self.check(source, "late", submit={"ok": True, "call": 7})
        self.assertEqual(fake_host.sent("cancel"), [{"op": "cancel", "call": 7}])

    def test_calls_still_open_at_the_end_are_withdrawn(self):
        source = "import asyncio\nt = asyncio.create_task(a.aio())\nawait asyncio.sleep(0)\n1"
        self.check(source, 1, submit={"ok": True, "call": 7})
        self.assertEqual(len(fake_host.sent("cancel")), 1)

    def test_waiting_passes_the_time_of_the_next_timer(self):
        self.check("import asyncio\nawait asyncio.sleep(0.005, 1)", 1)
        self.assertTrue(0 < fake_host.sent("wait")[0]["timeout_ms"] <= 5)

    def test_waiting_for_a_call_alone_has_no_timeout(self):
        host = Parallel({"a": 1})
        self.check("await a.aio()", 1, **host.script())
        self.assertEqual(host.waits[-1], None)

    def test_a_blocking_call_inside_a_loop_blocks(self):
        self.check("import asyncio\nawait asyncio.sleep(0)\na()", 3, call={"ok": True, "value": 3})

    def test_what_would_run_in_a_thread_runs_in_place(self):
        self.check("import asyncio\nawait asyncio.to_thread(lambda: 8)", 8)
        result = run("import asyncio\nawait asyncio.to_thread(lambda: 1/0)", **IDLE)
        self.assertEqual(result.error["type"], "ZeroDivisionError")

    def test_call_soon_threadsafe_works_in_place(self):
        source = (
            "import asyncio\nl = asyncio.get_running_loop()\nf = l.create_future()\n"
            "l.call_soon_threadsafe(f.set_result, 9)\nawait f"
        )
        self.check(source, 9)

    def test_an_await_that_cannot_finish_raises_where_it_stands(self):
        result = run("import asyncio\nasync def f():\n    await asyncio.Event().wait()\nawait f()")
        self.assertEqual(result.error["type"], "RuntimeError")
        self.assertIn("await would never finish", result.error["message"])
        self.assertIn('line 3, in f', result.error["traceback"])

    def test_a_loop_that_runs_for_ever_with_nothing_to_do_is_stopped(self):
        result = run("import asyncio\nl = asyncio.new_event_loop()\ntry:\n    l.run_forever()\nfinally:\n    l.close()")
        self.assertIn("await would never finish", result.error["message"])

    def test_a_host_that_has_nothing_in_flight_is_a_deadlock_too(self):
        result = run("await a.aio()", ["a"], submit={"ok": True, "call": 7}, **IDLE)
        self.assertIn("await would never finish", result.error["message"])

    def test_async_generators_are_closed_at_the_end(self):
        source = (
            "async def g():\n    try:\n        yield 1\n    finally:\n        print('closed')\n"
            "i = g()\nawait i.__anext__()"
        )
        result = run(source, **IDLE)
        self.assertEqual((result.value, result.output), (1, "closed\n"))
