"""Which calls are found in a source, and what the host is asked about them."""

import ast
import asyncio
import email
import json
import pathlib
import unittest

import tests  # noqa: F401  (puts the fake host in place)
from _callgate.catalogue import Tools
from _callgate.names import bind
from _callgate.plain_calls import PlainCalls
from _callgate.tools import OWN_NAMES, ToolFunction
from tests import fake_host
from tests.fake_host import run

FIND = {"name": "find", "parameters": {"properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}}


def namespace(*names):
    functions = [ToolFunction({**FIND, "name": name}) for name in names]
    bound = bind(functions)
    return {**bound, "tools": Tools(functions, bound), **OWN_NAMES}


def lines(source, *names):
    """The lines of the calls that are found."""
    return [found.node.lineno for found in PlainCalls(namespace(*(names or ("find",)))).find(ast.parse(source))]


class FindTest(unittest.TestCase):
    def test_calls_of_every_form_are_found_in_their_order(self):
        source = "find(1)\ntools.find(1)\ncall_tool('find')\nfind.aio\nx = [find(2)]\nprint(find(3))\nfind\nother(4)"
        self.assertEqual(lines(source), [1, 2, 3, 5, 6])

    def test_awaitables_are_found_where_they_are_awaited_at_once(self):
        source = "async def main():\n    await find.aio(1)\n    x = find.aio(2)\n    gather(find.aio(3), *[find.aio(4) for _ in x])"
        self.assertEqual(lines(source), [2, 4, 4])

    def test_where_exceptions_may_be_handled_only_what_runs_at_once_is_found(self):
        source = "def f():\n    find(1)\nfind(2)\nclass C:\n    find(3)\ntry:\n    find(4)\nexcept E:\n    find(5)\n[find(6)]"
        self.assertEqual(lines(source), [3, 5, 10])
        self.assertEqual(lines(source.partition("try")[0]), [2, 3, 5])

    def test_a_name_that_is_bound_anywhere_is_not_the_tool(self):
        for binding in (
            "find = 1", "def find(): pass", "class find: pass", "import find", "import x as find", "from x import find",
            "for find in x: pass", "with x as find: pass", "def f(find): pass", "lambda find: 1", "[1 for find in x]",
            "(find := 1)", "try: pass\nexcept E as find: pass", "del find", "def f():\n    global find",
            "match x:\n    case [find]: pass", "match x:\n    case {**find}: pass", "from x import *", "exec('')",
            "x.__dict__", "find += 1", "async def find(): pass", "def f(*find): pass", "def f(**find): pass",
        ):
            self.assertEqual(lines(f"{binding}\nfind(1)"), [], binding)

    def test_it_reads_whatever_python_can_parse(self):
        folders = [pathlib.Path(module.__file__).parent for module in (asyncio, email, json, unittest)]
        files = [file for folder in folders for file in folder.rglob("*.py")]
        self.assertGreater(len(files), 50)
        for file in files:
            for line in lines(file.read_text(encoding="utf-8"), "open", "print", "get", "loads"):
                self.assertGreater(line, 0)


class AskTest(unittest.TestCase):
    def asked(self, source, problems=()):
        """What the host was asked, and how the run ended."""
        answers = {"precheck": {"ok": True, "problems": list(problems)}, "call": {"ok": True, "value": 1}}
        result = run(source, (FIND,), precheck=answers["precheck"], call=answers["call"])
        asked = fake_host.sent("precheck")
        return (asked[0]["calls"] if asked else None), result


    def test_literals_are_told_and_other_values_only_named(self):
        calls, _ = self.asked("x = 1\nfind('a', limit=x)\nfind(query={'b': [1, (2,)]}, **{})")
        self.assertEqual(
            calls,
            [
                {"tool": "find", "server": None, "arguments": {"query": "a"}, "unknown": ["limit"], "open": False},
                {"tool": "find", "server": None, "arguments": {"query": {"b": [1, [2]]}}, "unknown": [], "open": True},
            ],
        )

    def test_nothing_is_asked_where_there_is_no_call(self):
        self.assertEqual(self.asked("print(1)")[0], None)
        self.assertEqual(self.asked("find(*[1])")[0], None)

    def test_a_problem_ends_the_run_before_it_begins(self):
        _, result = self.asked("print('begun')\nfind()", [["missing argument `query`"]])
        self.assertEqual((result.error["kind"], result.error["type"], result.output), ("precheck", "PrecheckError", ""))
        self.assertIn('File "main.py", line 2\n    find()\n    ^^^^^^\n  missing argument `query`\n', result.error["message"])
        self.assertEqual(fake_host.sent("call"), [])

    def test_too_many_positional_arguments_need_no_host(self):
        _, result = self.asked("find(1, 2, 3)", [[]])
        self.assertIn("3 positional arguments, but the tool takes 2 positional arguments", result.error["message"])

    def test_a_host_that_cannot_tell_changes_nothing(self):
        result = run("find(1)", (FIND,), precheck={"ok": False}, call={"ok": True, "value": 5})
        self.assertEqual(result.value, 5)
