"""Executed once in the guest, while its image is made: install the prelude and warm everything up.

The prelude's modules get a private copy of builtins, so that user code which empties the real one
cannot keep a run from being finished. Anything that goes wrong here raises: the host sees it.
"""

import array
import builtins
import gc
import importlib
import importlib.machinery
import json
import os
import sys
from types import CodeType

import _host


class PreludeFinder:
    """Finds and loads modules whose source the host has handed over."""

    def __init__(self, modules):
        self._sources = {name: (source, is_package) for name, source, is_package in modules}
        self._builtins = dict(vars(builtins))

    def find_spec(self, name, path=None, target=None):
        if name not in self._sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self._sources[name][1])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        filename = f"<callgate>/{name}.py"
        module.__dict__["__builtins__"] = self._builtins
        code = compile(self._sources[name][0], filename, "exec", dont_inherit=True)
        exec(code, module.__dict__)


def build():
    answer = json.loads(_host.call(b'{"op":"build"}'))
    if "modules" not in answer:
        raise RuntimeError(f"the host has nothing to build: {answer}")
    for name in answer["preimports"]:
        importlib.import_module(name)
    finder = PreludeFinder(answer["modules"])
    sys.meta_path.insert(0, finder)
    for name, _source, _is_package in answer["modules"]:
        importlib.import_module(name)
    sys.modules["_callgate.warm"].warm()
    sys.meta_path.remove(finder)
    return answer


def parts_of_code(code):
    """What a code object holds: the garbage collector does not look into them."""
    parts = [code.co_consts, code.co_names, code.co_filename, code.co_name]
    parts += [code.co_qualname, code.co_linetable, code.co_exceptiontable]
    parts += [*code.co_varnames, *code.co_cellvars, *code.co_freevars]
    return parts


def addresses():
    """The addresses of all objects that can be reached.

    Which ones were seen is kept as a bit for every 8 bytes, CPython's alignment: a set would make
    the guest's memory a third larger, and it never shrinks again.
    """
    seen = bytearray(2 << 20)
    found = array.array("I")
    waiting = []

    def meet(items):
        for item in items:
            bit = id(item) >> 3
            byte, mask = bit >> 3, 1 << (bit & 7)
            if not seen[byte] & mask:
                seen[byte] |= mask
                found.append(id(item))
                waiting.append(item)

    meet(gc.get_objects())
    while waiting:
        chunk = waiting[-1000:]
        del waiting[-1000:]
        meet(gc.get_referents(*chunk))
        for item in chunk:
            if type(item) is CodeType:
                meet(parts_of_code(item))
    return found


def make_immortal():
    """Have the host take all objects out of reference counting: see src/image/snapshot.rs."""
    found = addresses()
    made = int(_host.call(b"immortal" + found.tobytes()))
    if made < 10_000 or not sys._is_immortal(importlib):
        raise RuntimeError(f"{made} of {len(found)} objects were made immortal")


os.environ["HOME"] = "/tmp"  # libraries keep their settings there, and complain where there is none
answer = build()
os.chdir("/tmp")
gc.collect()
if answer.get("immortal"):
    make_immortal()
gc.freeze()
gc.collect()  # also sets the counters back, so that short runs end before the next one
