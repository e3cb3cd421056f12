"""`multiprocessing.Pool` and its kin, in place; processes themselves are refused."""

import multiprocessing.pool as library
from itertools import starmap
from multiprocessing import process

from _callgate.threads import Worker


class AsyncResult:
    """Work that is done already."""

    def __init__(self, worker, work, callback, error_callback):
        self._value = self._error = None
        try:
            self._value = worker.run(work)
        except Exception as error:
            self._error = error
            callback, self._value = error_callback, error
        if callback is not None:
            callback(self._value)

    def get(self, timeout=None):
        """The value, or what the work raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout=None):
        """There is nothing to wait for."""

    def ready(self):
        """Always."""
        return True

    def successful(self):
        """Whether it raised nothing."""
        return self._error is None


class Results:
    """The iterator of `imap`, which has a `next` with a timeout."""

    def __init__(self, results):
        self._results = iter(results)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._results).get()

    def next(self, timeout=None):
        """The next result."""
        return self.__next__()


class Pool:
    """`multiprocessing.Pool` that does its work when it is asked to."""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._open = True
        self._worker = Worker(f"{type(self).__name__}-worker")
        if initializer is not None:
            self._worker.run(initializer, *initargs)

    def apply(self, func, args=(), kwds={}):
        """`func(*args, **kwds)`"""
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        """The same, as a result to get."""
        return self._start(lambda: func(*args, **kwds), callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        """A list of the results."""
        return self.map_async(func, iterable).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        """The same, as a result to get."""
        return self._start(lambda: list(map(func, iterable)), callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        """A list of the results; each item holds all arguments of a call."""
        return self.starmap_async(func, iterable).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        """The same, as a result to get."""
        return self._start(lambda: list(starmap(func, iterable)), callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        """The results one by one, as an iterator."""
        return Results([self.apply_async(func, (item,)) for item in iterable])

    imap_unordered = imap

    def close(self):
        """Refuse further work."""
        self._open = False

    terminate = close

    def join(self):
        """There is nothing to wait for."""
        if self._open:
            raise ValueError("Pool is still running")

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *_):
        self.terminate()

    def _start(self, work, callback, error_callback):
        self._check()
        return AsyncResult(self._worker, work, callback, error_callback)

    def _check(self):
        if not self._open:
            raise ValueError("Pool not running")


class ThreadPool(Pool):
    """The same; it never had processes."""


def _refuse_process(self):
    raise RuntimeError(
        "there are no processes here: call the function itself, or hand it to an executor or a Pool, "
        "which run it in place"
    )


def install():
    """Put these in place of the library's."""
    Pool.__module__ = ThreadPool.__module__ = AsyncResult.__module__ = library.__name__
    library.Pool, library.ThreadPool, library.AsyncResult = Pool, ThreadPool, AsyncResult
    process.BaseProcess.start = _refuse_process

