"""What becomes of results."""

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
from dataclasses import dataclass, field

import numpy
import pandas
import pytest
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from callgate_client.values import to_json_value


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    raw: bytes = b"\xff"


class Order(BaseModel):
    number: int = Field(alias="orderNumber")
    day: datetime.date = datetime.date(2026, 1, 2)
    note: str | None = None


class Circle:
    """Not JSON."""


@dataclass
class Ring:
    items: list[object] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 1.5, True, None, "é"]}, {"a": [1, 1.5, True, None, "é"]}),
        ((1, 2), [1, 2]),
        ({"only"}, ["only"]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.items(), [["a", 1]]),
        ({"a": 1}.values(), [1]),
        (collections.deque([1]), [1]),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        ((number for number in (1, 2)), [1, 2]),
        ({1: "one", None: "none"}, {"1": "one", "None": "none"}),
        (10**30, 10**30),
        (float("nan"), None),
        (float("-inf"), None),
        (Color.RED, "red"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(hours=2), "PT2H"),
        (decimal.Decimal("1.50"), "1.50"),
        (fractions.Fraction(1, 2), "1/2"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (pathlib.Path("/a/b"), "/a/b"),
        (b"text", "text"),
        (b"\xff\xfe\xff", "//7/"),
        ([b"text", b"\xff"], ["text", "/w=="]),
        ({"point": Point(1)}, {"point": {"x": 1, "raw": "/w=="}}),
        (Point(1, b"text"), {"x": 1, "raw": "text"}),
        (Order(orderNumber=1), {"orderNumber": 1, "day": "2026-01-02", "note": None}),
        (numpy.int64(3), 3),
        (numpy.float32(1.5), 1.5),
        (numpy.array([[1.5, float("nan")]]), [[1.5, None]]),
        (numpy.datetime64("2026-01-02"), "2026-01-02"),
        (pandas.Series([1, None]), [1.0, None]),
        (
            pandas.DataFrame({"day": pandas.to_datetime(["2026-01-02", None]), "n": [1, 2]}),
            [{"day": "2026-01-02T00:00:00", "n": 1}, {"day": None, "n": 2}],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_become_their_natural_json(value: object, expected: object) -> None:
    assert to_json_value(value) == expected


def test_the_result_of_another_server_stays_as_it_came() -> None:
    result = CallToolResult.model_validate(
        {"content": [TextContent(type="text", text="x")], "structuredContent": {"a": None}, "isError": False}
    )
    assert to_json_value(result) == {
        "content": [{"type": "text", "text": "x"}],
        "structuredContent": {"a": None},
        "isError": False,
    } | ({"resultType": "complete"} if hasattr(result, "result_type") else {})


@pytest.mark.parametrize("value", [Circle(), {"deep": [Circle()]}, Point(1, Circle())])  # type: ignore[arg-type]
def test_what_can_not_be_json_is_refused_with_the_name_of_its_type(value: object) -> None:
    with pytest.raises(TypeError, match=r"^test_values\.Circle is not JSON$"):
        to_json_value(value)


def test_circles_and_broken_text_are_refused() -> None:
    ring = Ring()
    ring.items.append(ring)
    with pytest.raises(TypeError, match="Circular reference"):
        to_json_value(ring)
    ring.items.insert(0, b"\xff")
    with pytest.raises(TypeError, match=r"[Cc]irc|recursion"):
        to_json_value(ring)
    with pytest.raises(TypeError, match="surrogates not allowed"):
        to_json_value("\ud800")
