"""Natural JSON."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import typing
import unittest
import uuid

import tests  # noqa: F401  (puts the fake host in place)
from _callgate import values
from _callgate.convert import TooLarge
from _callgate.errors import ToolCallError


def natural(value, limit=1 << 20):
    return json.loads(values.encode(value, limit))


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    tags: set


Pair = collections.namedtuple("Pair", "a b")


class PlainTest(unittest.TestCase):
    def test_plain_values_are_themselves(self):
        value = {"a": [1, -2.5, None, True, "é\n\"", {"b": []}], "c": {}}
        self.assertEqual(natural(value), value)

    def test_tuples_and_named_tuples_are_lists(self):
        self.assertEqual(natural([(1, 2), Pair(1, 2)]), [[1, 2], [1, 2]])

    def test_floats_that_are_not_finite_are_null(self):
        self.assertEqual(natural([float("nan"), float("inf"), {"a": float("-inf")}]), [None, None, {"a": None}])

    def test_integers_beyond_64_bits_are_their_digits(self):
        self.assertEqual(natural([2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
                         [2**64 - 1, str(2**64), -(2**63), str(-(2**63) - 1)])

    def test_an_integer_too_long_to_print_is_described(self):
        self.assertEqual(natural(1 << 100000), "<int of 100001 bits>")

    def test_strings_of_digits_stay_strings(self):
        self.assertEqual(natural("1" * 30), "1" * 30)

    def test_lone_surrogates_are_replaced_in_values_and_keys(self):
        self.assertEqual(natural({"a\ud800": "\udfffb"}), {"a\ufffd": "\ufffdb"})

    def test_surrogate_pairs_become_the_character(self):
        self.assertEqual(natural("\ud83d\ude00"), "\U0001f600")

    def test_keys_become_what_json_makes_of_them(self):
        value = {1: 1, 1.5: 2, None: 3, False: 4, Color.RED: 5, (1, 2): 6, datetime.date(2020, 1, 2): 7}
        self.assertEqual(
            natural(value),
            {"1": 1, "1.5": 2, "null": 3, "false": 4, "red": 5, "(1, 2)": 6, "2020-01-02": 7},
        )

    def test_subclasses_of_plain_types_are_plain(self):
        class Text(str):
            def encode(self, *args):
                raise OSError

        value = [Text("t"), Level.HIGH, collections.OrderedDict(a=1), collections.Counter("aa")]
        self.assertEqual(natural(value), ["t", 3, {"a": 1}, {"a": 2}])


class ConvertedTest(unittest.TestCase):
    def test_dataclasses_are_objects(self):
        self.assertEqual(natural([Point(1, {3, 1, 2})]), [{"x": 1, "tags": [1, 2, 3]}])

    def test_a_dataclass_itself_is_its_repr(self):
        self.assertEqual(natural(Point), repr(Point))

    def test_pydantic_models_are_dumped(self):
        class Model:
            def model_dump(self, mode):
                return {"mode": mode}

        self.assertEqual(natural(Model()), {"mode": "json"})

    def test_dates_are_iso_8601(self):
        value = [datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.date(2020, 1, 2), datetime.time(3, 4)]
        self.assertEqual(natural(value), ["2020-01-02T03:04:05", "2020-01-02", "03:04:00"])

    def test_durations_are_iso_8601(self):
        cases = {
            "P1DT2H": dict(days=1, hours=2), "PT0S": {}, "P3D": dict(days=3), "-PT1.5S": dict(seconds=-1.5),
            "PT1H2M3.000004S": dict(hours=1, minutes=2, seconds=3, microseconds=4), "PT1M": dict(minutes=1),
        }
        for text, parts in cases.items():
            self.assertEqual(natural(datetime.timedelta(**parts)), text)

    def test_decimals_uuids_and_paths_are_text(self):
        unique = uuid.uuid4()
        value = [decimal.Decimal("1.50"), unique, pathlib.PurePosixPath("/a/b")]
        self.assertEqual(natural(value), ["1.50", str(unique), "/a/b"])

    def test_sets_are_sorted_where_they_can_be(self):
        self.assertEqual(natural({3, 1, 2}), [1, 2, 3])
        self.assertCountEqual(natural(frozenset({1, "a"})), [1, "a"])

    def test_bytes_are_text_or_else_base64(self):
        self.assertEqual(natural([b"abc", b"\xff", bytearray(b"x"), memoryview(b"y")]), ["abc", "/w==", "x", "y"])

    def test_enums_are_their_values(self):
        self.assertEqual(natural([Color.RED, Level.HIGH]), ["red", 3])

    def test_other_collections_are_lists_and_objects(self):
        value = [range(3), collections.deque([1]), {"a": 1}.keys(), {"a": 1}.items(), types.MappingProxyType({"b": 2})]
        self.assertEqual(natural(value), [[0, 1, 2], [1], ["a"], [["a", 1]], {"b": 2}])

    def test_a_generator_is_not_consumed(self):
        generator = (i for i in range(3))
        self.assertIn("generator object", natural(generator))
        self.assertEqual(list(generator), [0, 1, 2])

    def test_anything_else_is_its_repr(self):
        self.assertEqual(natural([1j, object, ...]), ["1j", "<class 'object'>", "Ellipsis"])

    def test_a_repr_that_raises_is_described(self):
        class Bad:
            def __repr__(self):
                raise KeyboardInterrupt

        self.assertEqual(natural(Bad()), "<Bad object, repr failed: KeyboardInterrupt>")

    def test_a_conversion_that_raises_falls_back_to_the_repr(self):
        class Bad(dict):
            def items(self):
                raise SystemExit

        self.assertEqual(natural(Bad(a=1)), "{'a': 1}")

    def test_a_long_repr_is_cut(self):
        class Long:
            def __repr__(self):
                return "x" * 100000

        self.assertLess(len(natural(Long())), 66000)


class ShapeTest(unittest.TestCase):
    def test_a_cycle_is_marked(self):
        cycle = [1]
        cycle.append(cycle)
        self.assertEqual(natural(cycle), [1, "<list: cycle>"])
        table = {}
        table["self"] = table
        self.assertEqual(natural(table), {"self": "<dict: cycle>"})

    def test_the_same_value_twice_is_no_cycle(self):
        shared = {1}
        self.assertEqual(natural([shared, shared]), [[1], [1]])

    def test_a_hundred_levels_are_kept_and_more_are_marked(self):
        def nested(levels):
            value = 0
            for _ in range(levels):
                value = [value]
            return value

        self.assertEqual(natural(nested(100)), nested(100))
        self.assertIn("nested too deeply", str(natural(nested(101))))
        value = nested(20000)
        self.assertIn("nested too deeply", str(natural(value)))
        while value:
            value = value[0]

    def test_too_much_is_refused_without_being_spelled_out(self):
        shared = [0] * 1000
        for value in (range(10**12), [shared] * 10**6, ["x" * 1000] * 10**6, {1: {2}, 2: range(10**9)}):
            with self.assertRaises(TooLarge):
                values.encode(value, 1 << 16)

    def test_an_endless_container_is_refused(self):
        class Endless(list):
            def __iter__(self):
                while True:
                    yield 1

        with self.assertRaises(TooLarge):
            values.encode(Endless(), 1 << 16)


class ArgumentsTest(unittest.TestCase):
    def encode(self, limit=1000, **arguments):
        return json.loads(values.encode_arguments("t", arguments, limit))

    def reason(self, limit=1000, **arguments):
        with self.assertRaises(ToolCallError) as caught:
            self.encode(limit, **arguments)
        return caught.exception.message

    def test_natural_json_is_sent(self):
        sent = self.encode(a={2, 1}, b=datetime.date(2020, 1, 2), c=Point(1, set()), d=[Color.RED])
        self.assertEqual(sent, {"a": [1, 2], "b": "2020-01-02", "c": {"x": 1, "tags": []}, "d": ["red"]})

    def test_what_is_not_json_is_refused_by_name(self):
        cycle = []
        cycle.append(cycle)
        cases = [
            (float("nan"), "NaN is not JSON"),
            (float("-inf"), "infinity is not JSON"),
            (cycle, "it contains itself"),
            (object(), "a value of type object has no JSON form"),
            (1j, "a value of type complex has no JSON form"),
            ("\ud800", "a lone surrogate is not Unicode text"),
            (2**64, "an integer beyond 64 bits is not portable JSON"),
            ({(1, 2): 3}, "a dict key of type tuple has no JSON form"),
        ]
        for value, reason in cases:
            text = self.reason(ok=1, x=[value] if value is not cycle else value)
            self.assertEqual(text, f"argument 'x' cannot be sent as JSON: {reason}")

    def test_nesting_is_limited(self):
        value = 0
        for _ in range(200):
            value = [value]
        self.assertIn("nested deeper than 100 levels", self.reason(x=value))

    def test_the_size_is_limited(self):
        self.assertEqual(
            self.reason(x="é" * 600), "the arguments are 1208 bytes of JSON; the limit is 1000 (--max-arguments)"
        )
        self.assertIn("the limit is 1000 (--max-arguments)", self.reason(x="a" * 10**6))
        self.assertIn("the limit is 1000 (--max-arguments)", self.reason(x=range(10**9)))


def library_class(module, name, *bases, **members):
    return type(name, bases or (object,), {"__module__": module, **members})


class ArrayTest(unittest.TestCase):
    """With stand-ins: the real numpy and pandas are tested against the real image."""

    def array(self, items, kind="f"):
        class DType:
            pass

        made = library_class("numpy", "ndarray")()
        made.dtype = DType()
        made.dtype.kind = kind
        made.size = len(items)
        made.tolist = lambda: items
        return made

    def index(self, items, **attributes):
        base = library_class("pandas.core.indexes.base", "Index", tolist=lambda self: items, __len__=lambda self: len(items))
        kind = library_class("pandas.core.indexes.base", attributes.pop("type_name", "Index"), base)
        made = kind()
        vars(made).update({"names": [None], **attributes})
        return made

    def test_arrays_are_nested_lists(self):
        self.assertEqual(natural(self.array([[1.5, float("nan")]])), [[1.5, None]])

    def test_a_huge_array_is_refused_unseen(self):
        array = self.array([])
        array.size = 10**9
        array.tolist = self.fail
        with self.assertRaises(TooLarge):
            values.encode(array, 1 << 20)

    def test_scalars_are_their_items(self):
        scalar = library_class("numpy", "int64", library_class("numpy", "generic"))()
        scalar.dtype = types.SimpleNamespace(kind="i")
        scalar.item = lambda: 5
        self.assertEqual(natural([scalar]), [5])
        self.assertEqual(natural({scalar: 1}), {"5": 1})

    def test_a_series_with_row_numbers_is_a_list_and_with_labels_an_object(self):
        series = library_class("pandas.core.series", "Series", tolist=lambda self: [1, 2], __len__=lambda self: 2)()
        series.index = self.index([0, 1], type_name="RangeIndex", start=0, step=1)
        self.assertEqual(natural(series), [1, 2])
        series.index = self.index(["a", "b"])
        self.assertEqual(natural(series), {"a": 1, "b": 2})

    def test_a_frame_is_records(self):
        frame = library_class("pandas", "DataFrame", __len__=lambda self: 1)()
        frame.columns = ["v"]
        frame.to_dict = lambda orient: [{"v": 1}] if orient == "records" else None
        frame.index = self.index([0], type_name="RangeIndex", start=0, step=1)
        self.assertEqual(natural(frame), [{"v": 1}])

    def test_missing_values_are_null(self):
        missing = library_class("pandas._libs.missing", "NAType")()
        not_a_time = library_class("pandas._libs.tslibs.nattype", "NaTType", datetime.datetime)(2020, 1, 1)
        self.assertEqual(natural([missing, not_a_time]), [None, None])
