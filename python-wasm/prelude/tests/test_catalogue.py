"""Types out of schemas, and the search."""

import typing
import unittest

import tests  # noqa: F401  (puts the fake host in place)
from _callgate.annotations import Annotations, type_text
from _callgate.ranking import Ranking
from _callgate.signatures import stub_of
from tests.fake_host import run


def text(part, schema=None):
    return type_text(Annotations("t", schema or {}).of(part, "x"))


class AnnotationsTest(unittest.TestCase):
    def test_types(self):
        object_ = {"type": "object", "properties": {"a": {"type": "string"}}}
        cases = {
            "str": {"type": "string"}, "int": {"type": "integer"}, "None": {"type": "null"},
            "list[int]": {"type": "array", "items": {"type": "integer"}}, "dict": {"type": "object"},
            "dict[str, float]": {"type": "object", "additionalProperties": {"type": "number"}},
            "tuple[int, str]": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
            "Literal['a', 1, None]": {"enum": ["a", 1, None]}, "TX": object_, "list[TX]": {"type": "array", "items": object_},
            "bool": {"allOf": [{"type": "boolean"}]}, "Any": {"anyOf": []},
        }
        for expected, part in cases.items():
            self.assertEqual(text(part), expected, part)

    def test_typed_dicts_have_the_names_of_titles_and_definitions(self):
        annotations = Annotations("t", {"$defs": {"Person": {"type": "object", "properties": {"n": {"type": "string"}}}}})
        kinds = [
            annotations.of({"$ref": "#/$defs/Person"}, "x"),
            annotations.of({"title": "Box", "properties": {"n": {"type": "string"}}}, "x"),
            annotations.of({"title": "Box", "properties": {"n": {"type": "integer"}}}, "x"),
            annotations.of({"title": "no name", "properties": {"n": {"type": "integer"}}}, "some thing"),
        ]
        self.assertEqual([kind.__name__ for kind in kinds], ["Person", "Box", "Box2", "TSomeThing"])
        self.assertEqual(list(annotations.typed_dicts), ["Person", "Box", "Box2", "TSomeThing"])
        self.assertTrue(all(typing.is_typeddict(kind) for kind in kinds))

    def test_required_fields_are_told_from_others(self):
        stub = stub_of({"name": "t", "parameters": {"properties": {"x": {
            "title": "Box", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}}}})
        self.assertIn("class Box(TypedDict):\n    a: str\n    b: NotRequired[str]\n", stub)


class NothingOfferedTest(unittest.TestCase):
    def test_the_names_are_there_and_say_so(self):
        result = run("print(tools, search_tools('mail'))\nhelp(tools)\n[len(tools), list(tools), search_tools('x')]")
        self.assertIn("<no tools were offered> <no tool fits>\nno tools were offered\n", result.output)
        self.assertEqual(result.value, [0, [], []])
        self.assertEqual(run("tools.add").error["message"], "no tool 'add' was offered; none were")
        self.assertIn("search_tools(text, limit=10)", run("help(search_tools)").output)

    def test_variables_and_tools_of_those_names_win(self):
        result = run("[tools, search_tools]", variables={"tools": 5, "search_tools": 6})
        self.assertEqual(result.value, [5, 6])
        result = run("tools(), search_tools()", ["tools", "search_tools"], call={"ok": True, "value": 1})
        self.assertEqual(result.value, [1, 1], result.error)


class RankingTest(unittest.TestCase):
    OFFERS = [
        {"name": "sendMail", "description": "Delivers a message."},
        {"name": "list_mailboxes", "description": "Lists mailboxes."},
        {"name": "weather", "description": "The weather of a city.", "parameters": {"properties": {"city": {"description": "its name"}}}},
        {"name": "Überweisung", "description": "日本語 payments"},
    ]

    def names(self, question, limit=10):
        return [self.OFFERS[number]["name"] for number in Ranking(self.OFFERS).search(question, limit)]

    def test_names_parameters_and_descriptions_count(self):
        self.assertEqual(self.names("send mails"), ["sendMail", "list_mailboxes"])
        self.assertEqual(self.names("message"), ["sendMail"])
        self.assertEqual(self.names("cities"), ["weather"])
        self.assertEqual(self.names("payment"), ["Überweisung"])
        self.assertEqual(self.names("überweisung")[0], "Überweisung")
        self.assertEqual(self.names("mail", 1), ["sendMail"])

    def test_questions_without_an_answer(self):
        for question in ("", "zebra", "!?", "\ud800", " "):
            self.assertEqual(self.names(question), [], question)
        self.assertEqual(Ranking([]).search("x", 5), [])
