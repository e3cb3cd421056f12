"""Executors and pools that do their work in place: when it is submitted, in order."""

import concurrent.futures as futures
from concurrent.futures import _base, process, thread
from itertools import count

from _callgate.threads import Worker

_as_completed = _base.as_completed
_next_pool = count().__next__


class InPlaceExecutor(_base.Executor):
    """What ThreadPoolExecutor and ProcessPoolExecutor have in common here."""

    _broken_error = thread.BrokenThreadPool

    def __init__(self, max_workers=None, *, initializer=None, initargs=()):
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._max_workers = max_workers or 1
        self._initializer = initializer
        self._initargs = initargs
        self._shutdown = False
        self._broken = None
        self._worker = None

    def submit(self, fn, /, *args, **kwargs):
        """Run `fn(*args, **kwargs)` now; returns a future that is done."""
        if self._broken:
            raise self._broken_error(self._broken)
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _base.Future()
        future.set_running_or_notify_cancel()
        if self._worker is None:
            self._worker = Worker(f"{self._worker_prefix()}_0")
        if self._initialize():
            self._carry_out(future, fn, args, kwargs)
        else:
            future.set_exception(self._broken_error(self._broken))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Refuse further work; there is none to wait for."""
        self._shutdown = True

    def _initialize(self):
        """Call the initializer before the first work; false if it fails."""
        initializer, self._initializer = self._initializer, None
        if initializer is None:
            return True
        try:
            self._worker.run(initializer, *self._initargs)
            return True
        except BaseException:
            _base.LOGGER.critical("Exception in initializer:", exc_info=True)
            self._broken = "A thread initializer failed, the thread pool is not usable anymore"
            return False

    def _worker_prefix(self):
        return type(self).__name__

    def _carry_out(self, future, fn, args, kwargs):
        try:
            result = self._worker.run(fn, *args, **kwargs)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


class ThreadPoolExecutor(InPlaceExecutor):
    """Runs what is submitted at once: there are no threads here."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        super().__init__(max_workers, initializer=initializer, initargs=initargs)
        self._thread_name_prefix = thread_name_prefix or f"ThreadPoolExecutor-{_next_pool()}"

    def _worker_prefix(self):
        return self._thread_name_prefix


class ProcessPoolExecutor(InPlaceExecutor):
    """Runs what is submitted at once, in this process: there are no others here."""

    _broken_error = process.BrokenProcessPool

    def __init__(
        self, max_workers=None, mp_context=None, initializer=None, initargs=(), *, max_tasks_per_child=None
    ):
        super().__init__(max_workers, initializer=initializer, initargs=initargs)

    def map(self, fn, *iterables, timeout=None, chunksize=1, **more):
        """As for any executor; chunks make no difference."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        return super().map(fn, *iterables, timeout=timeout, **more)

    def terminate_workers(self):
        """There are none."""
        self._shutdown = True

    kill_workers = terminate_workers


def as_completed(fs, timeout=None):
    """Futures as they complete; those that are done come in the order in which they were given."""
    unique = dict.fromkeys(fs)
    if all(future.done() for future in unique):
        return iter(unique)
    return _as_completed(unique, timeout)


def install():
    """Put these in place of the library's, wherever it keeps them."""
    for kind, module in ((ThreadPoolExecutor, thread), (ProcessPoolExecutor, process)):
        name = kind.__name__
        kind.__module__ = module.__name__
        setattr(module, name, kind)
        setattr(futures, name, kind)
    _base.as_completed = futures.as_completed = as_completed
