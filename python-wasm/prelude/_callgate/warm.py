"""Exercise, while an image is made, what otherwise is initialized in every run."""

import sys

from _callgate import (
    catalogue,
    executors,
    host,
    loop,
    names,
    pools,
    randomness,
    repair,
    run,
    signatures,
    source,
    streams,
    threads,
    tools,
    tracebacks,
    values,
)

_SAMPLE = '''
import asyncio
from dataclasses import dataclass
@dataclass
class Point:
    x: int
await asyncio.sleep(0)
Point(1)
'''
_WHOLE_RUNS = 100
_WHOLE_PROGRAMS = (
    "print(1 + 1)\nlambda: warm('a')\n[1]",
    """
import asyncio
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
await asyncio.gather(main(), asyncio.wait_for(asyncio.sleep(0), 1))
""",
    "import asyncio\nasync def main():\n    await asyncio.sleep(0)\nasyncio.run(main())",
    "def f(x):\n    return [1 / y for y in x]\nf([1, 0])",
)
_SCHEMA = {"properties": {"a": {"type": "string"}}, "required": ["a"]}


def warm():
    """Touch each lazy corner once; nothing that user code could see may change."""
    streams.install()
    loop.install()
    threads.install()
    executors.install()
    pools.install()
    _warm_values()
    _warm_run()
    _warm_errors()
    if "numpy" in sys.modules:
        _warm_numpy(sys.modules["numpy"])
    if "pandas" in sys.modules:
        _warm_pandas(sys.modules["pandas"])
    repair.remember()
    _warm_whole_runs()


def _warm_values():
    values.encode({"a": [1, 2.5, None, float("nan"), {1}]}, 1 << 20)
    values.encode_arguments("warm", {"a": {1}}, 1 << 20)
    host.decode(b'{"a": [1, 2.5, "x"]}')


def _warm_run():
    tool = tools.ToolFunction({"name": "a-b", "description": "d", "parameters": _SCHEMA})
    names.bind([tool])
    signatures.docstring_of(tool._offer)
    repr(tool)
    offered = catalogue.Tools([tool], names.bind([tool]))
    catalogue.search_of(offered)("text")
    offered.stubs()
    namespace = {"__name__": "__main__"}
    values.encode(loop.run(source.compile_program(_SAMPLE).run_async(namespace)), 1 << 20)


def _warm_whole_runs():
    """The interpreter adapts its code while it runs, by writing to it: let it come to rest.

    A run that finds adapted code writes to fewer pages of the snapshot, each of which costs a copy.
    """
    kept = dict(vars(sys)), sys.modules["__main__"], list(sys.path)
    start = {
        "tools": [{"name": "warm", "description": "d", "parameters": _SCHEMA}],
        "global_variables": {},
        "precheck": True,
        "limits": {"result_bytes": 1 << 20, "arguments_bytes": 1 << 20},
    }
    for _ in range(_WHOLE_RUNS):
        for source_text in _WHOLE_PROGRAMS:
            randomness.reseed()
            run.execute({**start, "source": source_text})
    vars(sys).update(kept[0])
    sys.modules["__main__"] = kept[1]
    sys.path[:] = kept[2]
    run.forget()
    source.forget_lines()


def _warm_errors():
    for text in ("x = ", "undefined_name", "1 / 0"):
        try:
            source.compile_program(text).run({})
        except Exception as error:
            tracebacks.describe(error)
    source.forget_lines()


def _warm_numpy(numpy):
    numpy.random.default_rng().random(2)
    values.encode(numpy.array([[1.0, float("nan")]]), 1 << 20)
    str(numpy.arange(3.0))


def _warm_pandas(pandas):
    frame = pandas.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]})
    summed = frame.groupby("k").sum()
    str(frame)
    str(summed)
    frame.describe()
    frame.merge(summed, on="k")
    pandas.to_datetime(["2024-01-01"])
    values.encode(frame, 1 << 20)
    values.encode(summed["v"], 1 << 20)
