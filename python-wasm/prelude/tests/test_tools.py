"""Tools as functions."""

import asyncio
import inspect
import pydoc
import unittest

from tests import fake_host
from tests.fake_host import run
from _callgate.errors import ToolCallError
from _callgate.names import bind, identifier
from _callgate.tools import ToolFunction, call_tool, call_tool_async

SEARCH = {
    "name": "web_search",
    "description": "Search the web.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "limit": {"type": "integer", "default": 10},
            "kind": {"enum": ["news", "all"]},
        },
        "required": ["query"],
    },
}
ECHO = {"call": lambda request: {"ok": True, "value": request["arguments"]}}


class CallTest(unittest.TestCase):
    def value(self, source, *tools):
        result = run(source, tools or (SEARCH,), **ECHO)
        self.assertIsNone(result.error, result.error)
        return result.value

    def error(self, source, *tools, **answers):
        return run(source, tools or (SEARCH,), **(answers or ECHO)).error

    def test_keyword_arguments_are_sent(self):
        self.assertEqual(self.value("web_search(query='x', limit=2)"), {"query": "x", "limit": 2})
        self.assertEqual(
            fake_host.sent("call"),
            [{"op": "call", "tool": "web_search", "server": None, "arguments": {"query": "x", "limit": 2}}],
        )

    def test_positional_arguments_follow_the_schema(self):
        self.assertEqual(self.value("web_search('x', 2)"), {"query": "x", "limit": 2})
        self.assertEqual(self.value("web_search('x', kind='all')"), {"query": "x", "kind": "all"})

    def test_unknown_keywords_are_the_gates_business(self):
        self.assertEqual(self.value("web_search(other=1)"), {"other": 1})

    def test_too_many_positional_arguments_are_a_type_error(self):
        error = self.error("web_search(1, 2, 3, 4)")
        self.assertEqual(error["type"], "TypeError")
        self.assertEqual(error["message"], "web_search() takes 3 positional arguments but 4 were given")
        one = {"name": "t", "parameters": {"properties": {"a": {}}}}
        self.assertEqual(self.error("t(1, 2)", one)["message"], "t() takes 1 positional argument but 2 were given")

    def test_an_argument_given_twice_is_a_type_error(self):
        error = self.error("web_search('x', query='y')")
        self.assertEqual(error["message"], "web_search() got multiple values for argument 'query'")

    def test_without_a_schema_arguments_go_by_keyword(self):
        for tool in ({"name": "t"}, {"name": "t", "parameters": {}}, {"name": "t", "parameters": {"type": "object"}}):
            self.assertEqual(self.value("t(a=1)", tool), {"a": 1})
            self.assertEqual(self.error("t(1)", tool)["message"], "t() takes its arguments by keyword only")

    def test_nothing_is_sent_when_the_arguments_are_wrong(self):
        self.error("web_search(1, 2, 3, 4)")
        self.error("web_search(query=float('nan'))")
        self.assertEqual(fake_host.sent("call"), [])

    def test_a_parameter_may_be_called_self_or_name(self):
        self.assertEqual(self.value("t(self=1, name=2)", {"name": "t"}), {"self": 1, "name": 2})
        self.assertEqual(self.value("call_tool('t', name=2, arguments=3)"), {"name": 2, "arguments": 3})

    def test_call_tool_takes_keywords_or_one_dict(self):
        self.assertEqual(self.value("call_tool('web_search', query='x')"), {"query": "x"})
        self.assertEqual(self.value("call_tool('web_search', {'query': 'x'})"), {"query": "x"})
        self.assertEqual(self.value("call_tool('web_search', {'query': 'x'}, limit=1)"), {"query": "x", "limit": 1})
        self.assertEqual(self.value("call_tool(web_search, query='x')"), {"query": "x"})

    def test_call_tool_refuses_other_positional_arguments(self):
        for source in ("call_tool('t', 'x')", "call_tool('t', {1: 2})", "call_tool('t', {'a': 1}, a=2)", "call_tool(5)"):
            self.assertEqual(self.error(source)["type"], "TypeError", source)

    def test_call_mcp_tool_names_the_server(self):
        self.assertEqual(self.value("call_mcp_tool('github', 'search_issues', q='x')"), {"q": "x"})
        request = fake_host.sent("call")[0]
        self.assertEqual((request["server"], request["tool"]), ("github", "search_issues"))

    def test_a_failure_is_a_tool_call_error(self):
        source = "try:\n    web_search('x')\nexcept ToolCallError as e:\n    r = [str(e), e.tool_name, e.message, e.request_id]\nr"
        failure = {"ok": False, "message": "Tool call timeout: web_search", "request_id": "7"}
        result = run(source, (SEARCH,), call=failure)
        self.assertEqual(
            result.value,
            ["Tool call 'web_search' failed: Tool call timeout: web_search", "web_search",
             "Tool call timeout: web_search", "7"],
        )

    def test_an_uncaught_failure_is_an_ordinary_exception(self):
        error = self.error("web_search('x')", call={"ok": False, "message": "no"})
        self.assertEqual((error["kind"], error["type"]), ("exception", "ToolCallError"))
        self.assertEqual(error["message"], "Tool call 'web_search' failed: no")

    def test_arguments_over_the_limit_are_refused(self):
        result = run("web_search('x' * 100)", (SEARCH,), limits={"arguments_bytes": 50}, **ECHO)
        self.assertIn("the limit is 50 (--max-arguments)", result.error["message"])

    def test_a_tool_error_can_be_pickled(self):
        source = "import pickle, copy\ne = pickle.loads(pickle.dumps(ToolCallError('t', 'm', 'r')))\n[str(copy.copy(e)), e.request_id]"
        self.assertEqual(self.value(source), ["Tool call 't' failed: m", "r"])

    def test_a_lone_surrogate_in_a_name_does_not_break_the_frame(self):
        self.value("call_tool('\\ud800')")
        self.assertEqual(fake_host.sent("call")[0]["tool"], "\ufffd")


class NamesTest(unittest.TestCase):
    def test_names_become_the_nearest_identifier(self):
        cases = {
            "web_search": "web_search", "web-search": "web_search", "class": "class_", "2nd": "_2nd",
            "a.b/c": "a_b_c", "None": "None_", "!": "_", "日本": "日本", "ﬁnd": "find", "x²": "x2", "a b": "a_b",
        }
        for name, nearest in cases.items():
            self.assertEqual(identifier(name), nearest)
            self.assertTrue(nearest.isidentifier())

    def test_an_exact_name_wins_and_then_the_first(self):
        tools = [ToolFunction({"name": name}) for name in ("a-b", "a.b", "a_b", "c-d", "c.d")]
        bound = {name: tool.__name__ for name, tool in bind(tools).items()}
        self.assertEqual(bound, {"a_b": "a_b", "c_d": "c-d"})

    def test_precedence_is_own_names_then_tools_then_variables_then_builtins(self):
        tools = [{"name": "call_tool"}, {"name": "x"}, {"name": "print"}]
        source = "[type(f).__name__ for f in (call_tool, x, print)]"
        result = run(source, tools, variables={"x": 1, "call_tool": 2})
        self.assertEqual(result.value, ["function", "ToolFunction", "ToolFunction"])

    def test_a_mangled_tool_is_called_by_its_own_name(self):
        run("web_search(a=1)", ["web-search"], **ECHO)
        self.assertEqual(fake_host.sent("call")[0]["tool"], "web-search")


class SignatureTest(unittest.TestCase):
    def signature(self, properties, required=(), **more):
        schema = {"type": "object", "properties": properties, "required": list(required), **more}
        return str(inspect.signature(ToolFunction({"name": "t", "parameters": schema})))

    def test_the_signature_shows_types_and_defaults(self):
        self.assertEqual(
            str(inspect.signature(ToolFunction(SEARCH))),
            "(query: str, limit: int = 10, kind: Literal['news', 'all'] = ...)",
        )

    def test_types_of_every_kind_are_shown(self):
        properties = {
            "a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "array"}, "c": {"type": "object"},
            "d": {"type": "boolean"}, "e": {"type": "number"}, "f": {}, "g": {"$ref": "#/$defs/G"},
        }
        text = self.signature(properties, properties, **{"$defs": {"G": {"const": 1}}})
        self.assertEqual(text, "(a: list[str], b: list, c: dict, d: bool, e: float, f, g: Literal[1])")
        nullable = self.signature({"x": {"type": ["string", "null"]}})
        self.assertIn(nullable, ("(x: Optional[str] = ...)", "(x: str | None = ...)"))
        self.assertIn("int", self.signature({"x": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}))

    def test_a_required_parameter_after_an_optional_one_is_shown_by_keyword(self):
        properties = {"a": {"type": "string"}, "b": {"type": "string"}}
        self.assertEqual(self.signature(properties, ["b"]), "(a: str = ..., *, b: str)")

    def test_names_that_are_no_parameters_are_behind_the_stars(self):
        self.assertEqual(self.signature({"from": {}, "max-x": {}, "arguments": {}}, ["arguments"]), "(*, arguments, **arguments_)")
        self.assertEqual(self.signature({}), "(**arguments)")

    def test_hostile_schemas_are_survived(self):
        loop = {"properties": {"x": {"$ref": "#/properties/x"}}}
        for schema in (None, [], 5, {"properties": []}, {"properties": {"x": 5}, "required": 7}, loop,
                       {"properties": {"x": {"type": 5, "enum": 3, "anyOf": [{}], "$ref": 9}}},
                       {"properties": {"x": {"enum": []}, "y": {"enum": [[1]]}, "z": {"type": [[]]}}}):
            tool = ToolFunction({"name": "t", "parameters": schema})
            self.assertIn("(", repr(tool))
            self.assertIsInstance(tool.__doc__, str)

    def test_help_shows_description_and_parameters(self):
        text = pydoc.plain(pydoc.render_doc(ToolFunction(SEARCH)))
        for part in ("web_search(query: str, limit: int = 10", "Search the web.", "query (str, required): what to look for",
                     "limit (int, default 10)"):
            self.assertIn(part, text)
        self.assertNotIn("Methods", text)
        text = pydoc.plain(pydoc.render_doc(ToolFunction({"name": "a-b"})))
        self.assertIn("<tool a_b(**arguments)>\n    No description was given.", text)

    def test_the_awaitable_twins_are_coroutine_functions(self):
        for function in (ToolFunction(SEARCH).aio, call_tool_async):
            self.assertTrue(inspect.iscoroutinefunction(function))
            self.assertTrue(asyncio.iscoroutinefunction(function))

    def test_own_functions_have_documentation(self):
        self.assertIn("Call a tool", call_tool.__doc__)
        self.assertEqual(ToolCallError.__module__, "__main__")
