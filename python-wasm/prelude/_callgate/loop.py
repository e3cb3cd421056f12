"""An event loop for a world without sockets and threads: what it waits for is the host."""

import asyncio
from asyncio import base_events, events, futures, tasks
from inspect import CORO_CREATED, getcoroutinestate
from types import CoroutineType

from _callgate import host
from _callgate.errors import ToolCallError
from _callgate.threads import Worker, WouldWaitForEver

_FUTURES = (asyncio.Future, asyncio.Task, tasks._GatheringFuture)
_GIVE_UP = (asyncio.Timeout._on_timeout, tasks._release_waiter)  # callbacks of `timeout`, `wait_for`, `wait`
_waiting = {}  # submitted calls: their number → the tool, the future and its loop


class GateLoop(base_events.BaseEventLoop):
    """asyncio's own loop, which waits for tool calls and timers instead of sockets."""

    def __init__(self, selector=None):
        """Code that picks a selector for its loop gets this loop all the same."""
        super().__init__()
        self._selector = self  # `_run_once` selects on this
        self._worker = None

    def select(self, timeout):
        """Wait until a call has ended or the time is over; called once a turn of the loop."""
        if timeout is None:
            self._wait_for_calls()
        elif timeout or _waiting:
            _resolve_all(host.wait(timeout * 1000, patient=self._only_gives_up()))
        return ()

    def _only_gives_up(self):
        """Whether all timers are timeouts of awaits: without news, none of them brings the program on."""
        return bool(_waiting) and all(
            timer._cancelled or getattr(timer._callback, "__func__", timer._callback) in _GIVE_UP
            for timer in self._scheduled
        )

    def _wait_for_calls(self):
        """There is no timer and nothing to do: only the end of a call can bring news."""
        ended = host.wait(None) if _waiting else ()
        if ended:
            _resolve_all(ended)
        else:
            self._break_deadlock()

    def _process_events(self, event_list):
        """Nothing: `select` has resolved the futures already."""

    def _write_to_self(self):
        """Nothing: no other thread could be asleep in `select`."""

    def run_in_executor(self, executor, func, *args):
        """There are no threads: run it here and now, and hand back a future that is done."""
        self._check_closed()
        if self._debug:
            self._check_callback(func, "run_in_executor")
        if executor is not None:
            return futures.wrap_future(executor.submit(func, *args), loop=self)
        if self._worker is None:
            self._worker = Worker("asyncio_0")
        future = self.create_future()
        try:
            future.set_result(self._worker.run(func, *args))
        except BaseException as error:
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout=None):
        """There is none."""

    def _break_deadlock(self):
        """Nothing can ever happen again: fail the awaits, each where it stands in the code."""
        broken = False
        for task in asyncio.all_tasks(self):
            future = getattr(task, "_fut_waiter", None)
            if future is None or isinstance(future, asyncio.Task) or future.done():
                continue
            future.set_exception(_Deadlock())
            broken = True
        if not broken:
            raise _Deadlock()


class _Deadlock(WouldWaitForEver):
    """An await that nothing can end; a thread that comes to it fails where it is started."""

    def __init__(self):
        RuntimeError.__init__(self, "await would never finish: nothing is running that could complete it")


_Deadlock.__name__ = _Deadlock.__qualname__ = "RuntimeError"
_Deadlock.__module__ = "builtins"


async def call(tool, server, arguments):
    """Call a tool while other tasks of the loop run."""
    loop = events.get_running_loop()
    if not isinstance(loop, GateLoop):
        return host.call(tool, server, arguments)  # a loop of the user's own cannot wait for us
    number = host.submit(tool, server, arguments)
    future = loop.create_future()
    _waiting[number] = (tool, future, loop)
    try:
        return await future
    finally:
        if _waiting.pop(number, None):  # cancelled: the answer has not come
            host.cancel(number)


def _resolve_all(answers):
    for answer in answers:
        _resolve(answer)


def _resolve(answer):
    tool, future, loop = _waiting.pop(answer["call"], (None, None, None))
    if future is None or future.done() or loop.is_closed():
        return
    try:
        future.set_result(host.value_of(tool, answer))
    except ToolCallError as error:
        future.set_exception(error)


def is_unawaited(value):
    """Whether it is a coroutine that has not begun, or a future of the running loop that is not done."""
    kind = type(value)
    if kind is CoroutineType:
        return getcoroutinestate(value) == CORO_CREATED
    return kind in _FUTURES and not value.done() and value.get_loop() is events._get_running_loop()


def run(coroutine):
    """Drive a coroutine to its end in a loop of its own, then clean up after its tasks."""
    with asyncio.Runner(loop_factory=GateLoop) as runner:
        return runner.run(coroutine)


def _get_event_loop(policy):
    """The loop set for this thread, or a new one.

    Newer versions refuse the latter, yet much code still calls `asyncio.get_event_loop()` first.
    """
    loop = policy._local._loop
    if loop is None or loop.is_closed():
        loop = GateLoop()
        policy.set_event_loop(loop)
    return loop


def install():
    """Make this the loop that `asyncio.run` and its kin create."""
    # The class, not the current policy: resetting the policy must not bring back the stock loop.
    policy = getattr(asyncio, "_DefaultEventLoopPolicy", None) or asyncio.DefaultEventLoopPolicy
    policy._loop_factory = GateLoop
    policy.get_event_loop = _get_event_loop
    asyncio.SelectorEventLoop = asyncio.EventLoop = GateLoop
