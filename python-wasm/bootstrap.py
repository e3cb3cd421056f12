"""Executed once in the guest, while its image is made: install the prelude and warm everything up.

The prelude's modules get a private copy of builtins, so that user code which empties the real one
cannot keep a run from being finished. Anything that goes wrong here raises: the host sees it.
"""

import builtins
import gc
import importlib
import importlib.machinery
import json
import os
import sys

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


build()
os.chdir("/tmp")
gc.collect()
gc.freeze()
