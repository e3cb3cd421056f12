"""Code that breaks what it can reach: the run must still end with a fitting report.

Each case runs in an interpreter of its own, with the prelude installed by `bootstrap.py` as in the
guest: with private builtins.
"""

import json
import pathlib
import subprocess
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).parents[2]

_HOST = """
import json, os, sys, types
root, source = sys.argv[1:]
package = os.path.join(root, "prelude", "_callgate")
modules = [["_callgate", open(os.path.join(package, "__init__.py")).read(), True]]
for name in sorted(os.listdir(package)):
    if name.endswith(".py") and name != "__init__.py":
        modules.append(["_callgate." + name[:-3], open(os.path.join(package, name)).read(), False])
limits = {"result_bytes": 1 << 20, "arguments_bytes": 1 << 20}
start = {"source": source, "tools": [{"name": "echo"}], "global_variables": {}, "limits": limits}
answers = {"build": {"modules": modules, "preimports": ["json"]}, "start": start,
           "call": {"ok": True, "value": "echoed"}}
answers = {op: json.dumps(answer).encode() for op, answer in answers.items()}
def call(frame):
    for op, answer in answers.items():
        if frame.startswith(b'{"op":"' + op.encode() + b'"'):
            return answer
    if frame.startswith(b'{"op":"finish"'):
        write(3, frame + b"\\n")
    return b'{"ok": true, "done": []}'
# The host is outside: nothing that the guest does to builtins reaches it.
host = types.ModuleType("_host")
private = dict(vars(__import__("builtins")))
host.call = types.FunctionType(call.__code__, {"answers": answers, "write": os.write, "__builtins__": private})
sys.modules["_host"] = host
exec(compile(open(os.path.join(root, "bootstrap.py")).read(), "bootstrap", "exec"), {"__name__": "bootstrap"})
import _callgate; _callgate.main()
os._exit(0)
"""


def run_alone(source):
    """The finish frame and what was printed."""
    command = f'exec 3>&1 1>&2; exec "{sys.executable}" -c "$0" "$@"'
    done = subprocess.run(
        ["sh", "-c", command, _HOST, str(ROOT), textwrap.dedent(source)],
        capture_output=True, text=True, timeout=120,
    )
    frames = done.stdout.splitlines()
    if not frames:
        raise AssertionError(f"no finish frame: {done.stderr}")
    return json.loads(frames[-1]), done.stderr


class HostileTest(unittest.TestCase):
    def succeeds(self, source, value):
        frame, output = run_alone(source)
        self.assertEqual((frame["status"], frame["return_value"]), ("success", value), (frame, output))

    def fails(self, source, last_line):
        frame, output = run_alone(source)
        self.assertEqual(frame["status"], "run-error", (frame, output))
        self.assertEqual(frame["error"]["traceback"].splitlines()[-1], last_line)
        return frame["error"]

    def test_json_without_its_functions(self):
        self.succeeds("import json\njson.dumps = json.loads = json.JSONEncoder = None\n[echo(a={1}), {2}]", ["echoed", [2]])

    def test_builtins_deleted_one_by_one(self):
        self.fails("import builtins\ndel builtins.len, builtins.isinstance, builtins.str\n1/0",
                   "ZeroDivisionError: division by zero")

    def test_all_builtins_deleted(self):
        self.fails("import builtins\nbuiltins.__dict__.clear()\nx", "NameError: name 'x' is not defined")
        self.succeeds("import builtins\nbuiltins.__dict__.clear()\n[echo(a=1), {1, 2}]", ["echoed", [1, 2]])

    def test_builtins_replaced(self):
        self.succeeds("import builtins\nbuiltins.__import__ = builtins.type = None\n{1: {2}}", {"1": [2]})

    def test_print_gone(self):
        self.fails("import builtins\nbuiltins.print = None\nprint(1)", "TypeError: 'NoneType' object is not callable")

    def test_no_modules(self):
        self.fails("import sys\nsys.modules.clear()\nx", "NameError: name 'x' is not defined")
        self.succeeds("import sys\nsys.modules.clear()\n[1, {2}]", [1, [2]])

    def test_no_sys_attributes(self):
        self.fails("import sys\nsys.__dict__.clear()\n1/0", "ZeroDivisionError: division by zero")

    def test_no_streams(self):
        self.succeeds("import sys\nsys.stdout = sys.stderr = None\n1", 1)
        self.succeeds("import sys\ndel sys.stdout, sys.stderr\n2", 2)
        self.succeeds("import sys\nsys.stdout.close(); sys.stderr.close()\n3", 3)
        self.succeeds("import sys\nclass S:\n  def flush(self): raise SystemExit(3)\nsys.stdout = S()\n4", 4)

    def test_text_printed_before_the_streams_were_replaced_is_not_lost(self):
        _, output = run_alone("import sys\nprint('kept', end='')\nsys.stdout = None")
        self.assertIn("kept", output)

    def test_no_traceback_module(self):
        error = self.fails("import traceback\ntraceback.TracebackException.format = None\n1/0",
                           "ZeroDivisionError: division by zero")
        self.assertIn('File "main.py", line 3, in <module>', error["traceback"])

    def test_an_emptied_line_cache(self):
        error = self.fails("import linecache\nlinecache.clearcache()\n1/0", "ZeroDivisionError: division by zero")
        self.assertIn("    1/0\n", error["traceback"])

    def test_a_recursion_limit_that_leaves_no_room(self):
        frame, _ = run_alone("import sys\nsys.setrecursionlimit(40)\ndef f(): f()\nf()")
        self.assertEqual(frame["error"]["type"], "RecursionError")

    def test_a_trace_function_left_behind(self):
        frame, _ = run_alone("import sys\ndef t(*a): raise OSError\nsys.setprofile(t)")
        self.assertEqual(frame["status"], "run-error")
        self.assertEqual(frame["error"]["type"], "OSError")

    def test_a_metaclass_that_hides_the_name(self):
        source = """
            class Meta(type):
                __name__ = property(lambda cls: 1/0)
                __mro__ = property(lambda cls: 1/0)
                def __getattribute__(cls, name): raise OSError
            class E(Exception, metaclass=Meta): pass
            raise E("x")
        """
        frame, _ = run_alone(source)
        self.assertEqual((frame["error"]["type"], frame["error"]["message"]), ("E", "x"))

    def test_a_value_with_such_a_metaclass(self):
        source = """
            class Meta(type):
                def __getattribute__(cls, name): raise OSError
            class V(metaclass=Meta):
                def __repr__(self): return "v"
            [V()]
        """
        self.succeeds(source, ["v"])

    def test_a_cleared_main_module(self):
        self.fails("globals().clear()\nx", "NameError: name 'x' is not defined")

    def test_the_damage_stays_inside_when_the_source_awaits(self):
        frame, _ = run_alone("import asyncio, builtins\nawait asyncio.sleep(0)\nbuiltins.__dict__.clear()\n1")
        self.assertIn(frame["status"], ("success", "run-error"))

    def test_the_image_is_left_as_it_was_found(self):
        self.succeeds("import sys, linecache\n['main.py' in linecache.cache, type(sys.meta_path[0]).__name__ == 'PreludeFinder']",
                      [True, False])
