"""Threads, where there are none: what a thread would do is done at `start`, to its end.

A wait that only another thread could end is refused with one clear line; the interpreter's own lock
would take the whole guest down.
"""

import _thread
import _threading_local
import queue
import threading
import time
from asyncio import events, tasks
from contextlib import contextmanager
from contextvars import Context
from itertools import count

from _callgate import tracebacks

_idents = [_thread.get_ident()]
_next_ident = count(_idents[0] + 1).__next__


class WouldWaitForEver(RuntimeError):
    """A wait that nothing can end."""

    def __init__(self, what="this"):
        super().__init__(
            f"{what} would wait for ever: there are no threads here that could end the wait. "
            "A thread runs to its end when it is started, and an executor's work when it is submitted; "
            "for work side by side use asyncio"
        )


# To user code it is the RuntimeError that it is.
WouldWaitForEver.__name__ = WouldWaitForEver.__qualname__ = "RuntimeError"
WouldWaitForEver.__module__ = "builtins"


class Lock:
    """`threading.Lock` for a single thread."""

    __slots__ = ("_locked", "__weakref__")

    def __init__(self):
        self._locked = False

    def acquire(self, blocking=True, timeout=-1):
        """Take the lock; a wait with a timeout lasts as long as it says, and fails."""
        _check_timeout(blocking, timeout)
        if not self._locked:
            self._locked = True
            return True
        if not blocking:
            return False
        if timeout < 0:
            raise WouldWaitForEver()
        time.sleep(timeout)
        return False

    def release(self):
        """Give the lock back."""
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False

    def locked(self):
        """Whether it is taken."""
        return self._locked

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    def __repr__(self):
        state = "locked" if self._locked else "unlocked"
        return f"<{state} _thread.lock object at {id(self):#x}>"

    def _at_fork_reinit(self):
        self._locked = False

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked


def _check_timeout(blocking, timeout):
    if timeout == -1:
        return
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > threading.TIMEOUT_MAX:
        raise OverflowError("timestamp too large to convert to C PyTime_t")


@contextmanager
def elsewhere():
    """Run a block as another thread would: no event loop is running there."""
    loop = events._get_running_loop()
    if loop is None:
        yield
        return
    task = tasks.current_task(loop)
    if task is not None:
        tasks._leave_task(loop, task)
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(loop)
        if task is not None:
            tasks._enter_task(loop, task)


def _start(self):
    """Run the thread here and now. What it raises is printed, as it is for any thread."""
    if not self._initialized:
        raise RuntimeError("thread.__init__() not called")
    if self._started.is_set():
        raise RuntimeError("threads can only be started once")
    context = getattr(self, "_context", None) or Context()
    with as_current(self), elsewhere():
        try:
            context.run(self.run)
        except WouldWaitForEver:
            raise  # the program cannot do what it wants to: better to say so here
        except BaseException as error:
            tracebacks.trim_all(error)
            self._invoke_excepthook(self)


@contextmanager
def as_current(thread):
    """Make it the current thread, as far as Python code can see."""
    ident = thread._ident = thread._native_id = _next_ident()
    _idents.append(ident)
    thread._os_thread_handle = handle = _Handle(ident)
    threading._active[ident] = thread
    thread._started.set()
    try:
        yield
    finally:
        threading._active.pop(ident, None)
        _idents.remove(ident)
        handle.done = True


class Worker:
    """Stands for the thread of an executor or a pool: its name, its context, its `threading.local`."""

    def __init__(self, name):
        self._thread = threading.Thread(name=name, daemon=True)
        self._context = Context()
        self._works = False

    def run(self, function, *arguments, **named):
        """Call a function as that thread would."""
        if self._works:  # it hands work to itself: a real executor would have taken another thread
            return Worker(self._thread.name).run(function, *arguments, **named)
        self._works = True
        try:
            with as_current(self._thread), elsewhere():
                return self._context.run(function, *arguments, **named)
        finally:
            self._works = False


class _Handle:
    """Stands for the thread of the operating system."""

    def __init__(self, ident):
        self.ident = ident
        self.done = False

    def is_done(self):
        """Whether the thread has come to its end."""
        return self.done

    def join(self, timeout=None):
        """Wait for that end: only what the thread itself has called could find it missing."""
        if not self.done and timeout is None:
            raise WouldWaitForEver("joining a thread that waits for this call to end")


def _refuse_timer(self):
    raise RuntimeError(
        "threading.Timer cannot work here: there is no thread that could wait beside the program. "
        "Use asyncio: `asyncio.get_running_loop().call_later(...)` or `asyncio.timeout(...)`"
    )


def _start_new_thread(function, args, kwargs=None):
    """The low-level way to the same."""
    if kwargs is None:
        kwargs = {}
    thread = threading.Thread(target=function, args=args, kwargs=kwargs, daemon=True)
    thread.start()
    return thread.ident


def install():
    """Put all this in place of what cannot work."""
    threading.Lock = threading._allocate_lock = Lock
    _thread.allocate_lock = _thread.allocate = Lock
    _thread.start_new_thread = _thread.start_new = _start_new_thread
    threading.get_ident = lambda: _idents[-1]
    threading.local = _threading_local.local
    threading.Thread.start = _start
    threading.Timer.start = _refuse_timer
    queue.SimpleQueue = queue._PySimpleQueue
