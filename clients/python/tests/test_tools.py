"""Tools from functions and from other servers."""

from __future__ import annotations

import datetime
import enum
import functools
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from callgate_client import Tool, Tools

if TYPE_CHECKING:
    from somewhere import Unknown


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    city: str = "Ulm"


def paint(
    what: str,
    color: Color = Color.RED,
    *,
    address: Address | None = None,
    schema: Annotated[int, Field(ge=1, description="how often")] = 1,
    day: datetime.date = datetime.date(2026, 1, 2),
) -> list[Address]:
    """Paint something.

    Anything will do.
    """
    assert isinstance(color, Color)
    assert address is None or isinstance(address, Address)
    return [address] if address else []


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, hour: int) -> str:
        """Open the shop."""
        return f"{self.name} {hour}"

    async def __call__(self, hour: int) -> str:
        return self.open(hour)


def test_a_tool_says_what_its_function_says() -> None:
    (offer,) = Tools([paint]).available_tools()
    assert offer["name"] == "paint"
    assert offer["description"] == "Paint something.\n\nAnything will do."
    assert offer["parameters"] == {
        "$defs": {
            "Address": {
                "type": "object",
                "title": "Address",
                "properties": {"street": {"type": "string"}, "city": {"type": "string", "default": "Ulm"}},
                "required": ["street"],
            },
            "Color": {"type": "string", "title": "Color", "enum": ["red", "blue"]},
        },
        "type": "object",
        "additionalProperties": False,
        "required": ["what"],
        "properties": {
            "what": {"type": "string"},
            "color": {"$ref": "#/$defs/Color", "default": "red"},
            "address": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}], "default": None},
            "schema": {"type": "integer", "minimum": 1, "description": "how often", "default": 1},
            "day": {"type": "string", "format": "date", "default": "2026-01-02"},
        },
    }


@pytest.mark.anyio
async def test_arguments_are_checked_and_converted() -> None:
    tool = Tool.from_function(paint)
    result = await tool.call({"what": "wall", "color": "blue", "address": {"street": "x"}})
    assert result == [Address(street="x")]
    with pytest.raises(TypeError) as caught:
        await tool.call({"color": "green", "day": "someday", "size": 1})
    text = str(caught.value)
    assert text.startswith("paint() got wrong arguments: what: Field required; color: ")
    assert "day: " in text
    assert "size: Extra inputs are not permitted" in text


@pytest.mark.anyio
async def test_methods_partials_objects_and_lambdas_are_tools() -> None:
    shop = Shop("Ann's")
    tools = Tools([shop.open, functools.partial(paint, "door")])
    tools.add(shop, name="call")
    tools.add(lambda number: number + 1, name="next", description="Count.")
    assert list(tools) == ["open", "paint", "call", "next"]
    assert await tools["open"].call({"hour": 8}) == "Ann's 8"
    assert await tools["paint"].call({}) == []
    assert await tools["call"].call({"hour": 9}) == "Ann's 9"
    assert await tools["next"].call({"number": 1}) == 2
    assert tools["next"].description == "Count."


@pytest.mark.anyio
async def test_functions_take_what_their_signatures_take() -> None:
    def anything(first: int, /, *rest: int, **named: int) -> list[Any]:
        return [first, *rest, named]

    tool = Tool.from_function(anything)
    assert tool.parameters
    assert tool.parameters["additionalProperties"] is True
    assert await tool.call({"first": 1, "other": 2}) == [1, {"other": 2}]


@pytest.mark.anyio
async def test_with_a_schema_of_its_own_a_function_gets_arguments_as_they_came() -> None:
    schema = {"type": "object", "properties": {"day": {"type": "string"}}}
    tool = Tool.from_function(lambda day: day, name="echo", parameters=schema)
    assert tool.parameters == schema
    assert await tool.call({"day": "2026-01-02"}) == "2026-01-02"
    with pytest.raises(TypeError, match="unexpected keyword argument 'month'"):
        await tool.call({"month": 1})


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="there are two tools of the name 'paint'"):
        Tools([paint, paint])


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ValueError, match="has no name"):
        Tools([lambda: 1])


def test_a_signature_without_a_schema_is_refused_when_the_tool_is_made() -> None:
    def takes(thing: Shop) -> None: ...

    def forward(thing: Unknown) -> None: ...

    for function, reason in ((takes, "Unable to generate"), (forward, "name 'Unknown' is not defined")):
        with pytest.raises(
            TypeError, match=rf"tool '{function.__name__}' needs a JSON schema as `parameters`: {reason}"
        ):
            Tools([function])


def test_a_result_without_a_schema_is_no_problem() -> None:
    def gives() -> Unknown:
        return None

    def makes() -> Shop:
        return Shop("Ann's")

    assert [tool.returns for tool in Tools([gives, makes]).values()] == [None, None]


def test_models_read_tools_as_functions() -> None:
    tools = Tools([paint])
    tools.add(lambda: 1, name="web-search", description="Search.")
    assert tools.stubs() == (
        "def paint(*, what: str, color: Literal['red', 'blue'] = 'red', "
        'address: {"street": str, "city": str} | None = None, schema: int = 1, day: str = \'2026-01-02\') '
        '-> list[{"street": str, "city": str}]\n'
        "    Paint something.\n"
        "\n"
        "    Anything will do.\n"
        "    schema: how often\n"
        "\n"
        "call_tool('web-search')\n"
        "    Search."
    )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "Any"),
        (True, "Any"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"oneOf": [{"type": "integer"}, {"type": "integer"}, {"const": "all"}]}, "int | Literal['all']"),
        ({"$ref": "#/$defs/Tree"}, '{"left": dict}'),
        ({"$ref": "#/$defs/Missing"}, "Any"),
    ],
)
def test_types_are_written_as_python_writes_them(schema: object, text: str) -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    parameters = {"properties": {"value": schema}, "required": ["value"], "$defs": {"Tree": tree}}
    tool = Tool("show", never, parameters=parameters)
    assert Tools([tool]).stubs() == f"def show(*, value: {text})"


async def never(arguments: dict[str, Any]) -> object:
    raise AssertionError


class Pages:
    """A session with two pages of tools."""

    async def list_tools(self, *, params: Any) -> BaseModel:
        first = params is None
        tool: dict[str, Any] = {
            "name": "first" if first else "second",
            "description": None,
            "inputSchema": {},
            "outputSchema": None,
        }
        return Page(tools=[tool], nextCursor="more" if first else None)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> object:
        return name, arguments


class Page(BaseModel):
    tools: list[dict[str, Any]]
    next: str | None = Field(alias="nextCursor")


@pytest.mark.anyio
async def test_all_pages_of_another_servers_tools_are_taken() -> None:
    tools = Tools()
    await tools.add_session(Pages(), prefix="a_", server_name="a")
    assert tools.available_tools() == [
        {"name": "a_first", "parameters": {}, "serverName": "a"},
        {"name": "a_second", "parameters": {}, "serverName": "a"},
    ]
    assert await tools["a_second"].call({"x": 1}) == ("second", {"x": 1})
    with pytest.raises(ValueError, match="two tools of the name 'a_first'"):
        await tools.add_session(Pages(), prefix="a_")
