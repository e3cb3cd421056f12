"""Values that are not plain JSON, turned into a tree that is."""

from array import array
from base64 import b64encode
from collections import UserDict, UserList, deque
from collections.abc import ItemsView, KeysView, Mapping, Set, ValuesView
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from pathlib import PurePath
from types import MappingProxyType
from uuid import UUID

from _callgate import arrays
from _callgate.texts import Listing, clean, cut_end, safe_repr, safe_str, type_name

MAX_DEPTH = 100
MAX_REPR = 64 * 1024
MIN_INT = -(2**63)
MAX_INT = 2**64 - 1

_mro = type.__dict__["__mro__"].__get__


class NotJson(Exception):
    """The value has no natural JSON; the text says why."""


class TooLarge(Exception):
    """The value's JSON has more bytes than allowed; holds their number when it is known."""


class Converter:
    """One conversion. Strict refuses what lenient describes in words.

    It counts what the text will have at least, and gives up as soon as that is too much.
    """

    def __init__(self, limit, strict):
        self.left = limit
        self.strict = strict
        self._inside = set()  # the ids of the containers we are in: one met again is a cycle

    def spend(self, count):
        """Account for `count` more bytes of JSON."""
        self.left -= count
        if self.left < 0:
            raise TooLarge

    def convert(self, value, depth=0):
        """The value as plain JSON types; `depth` containers are around it."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return self.integer(value)
        if kind is float:
            return self.number(value)
        try:
            return self._convert_by_type(value, kind, depth)
        except (MemoryError, NotJson, TooLarge):
            raise
        except BaseException:  # the value's own methods may raise anything
            return self.describe(value)

    def _convert_by_type(self, value, kind, depth):
        if hasattr(kind, "__dataclass_fields__"):
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            return self.mapping(value, members.items(), depth)
        if hasattr(kind, "model_dump"):
            return self.convert_inside(value, value.model_dump(mode="json"), depth)
        for base in _mro(kind):
            handler = _HANDLERS.get(base) or arrays.handler_of(base)
            if handler is not None:
                return handler(self, value, depth)
        return self.describe(value)

    def text(self, value):
        """A string, without surrogates that UTF-8 cannot hold."""
        self.spend(str.__len__(value) + 2)
        cleaned = clean(value)
        if self.strict and cleaned is not value:
            raise NotJson("a lone surrogate is not Unicode text")
        return cleaned

    def integer(self, value):
        """An integer; beyond 64 bits its digits as text, because JSON readers would round it."""
        value = int.__pos__(value)
        if MIN_INT <= value <= MAX_INT:
            return value
        if self.strict:
            raise NotJson("an integer beyond 64 bits is not portable JSON")
        try:
            return self.text(int.__repr__(value))
        except ValueError:  # more digits than the interpreter is willing to print
            return f"<int of {value.bit_length()} bits>"

    def number(self, value):
        """A float; JSON has no word for those that are not finite."""
        value = float.__pos__(value)
        if isfinite(value):
            return value
        if self.strict:
            raise NotJson(("NaN" if value != value else "infinity") + " is not JSON")
        return None

    def describe(self, value):
        """The text for a value that has no natural JSON."""
        if self.strict:
            raise NotJson(f"a value of type {type_name(type(value))} has no JSON form")
        return self.text(safe_repr(value, MAX_REPR))

    def array(self, value, items, depth):
        """A list of the items of a container."""
        return self._within(value, depth, lambda: self._items(items, depth + 1))

    def mapping(self, value, items, depth):
        """An object of the pairs of a container."""
        return self._within(value, depth, lambda: self._members(items, depth + 1))

    def convert_inside(self, value, inner, depth):
        """What a value says it is made of, with the value itself around it."""
        return self._within(value, depth, lambda: self.convert(inner, depth))

    def _items(self, items, depth):
        result = []
        for item in items:
            self.spend(1)
            result.append(self.convert(item, depth))
        return result

    def _members(self, items, depth):
        result = {}
        for key, item in items:
            self.spend(2)
            result[self.key(key)] = self.convert(item, depth)
        return result

    def _within(self, value, depth, convert):
        """Step into a container and out again; a text when that must not be done."""
        if id(value) in self._inside:
            return self._refuse(value, "it contains itself", "cycle")
        if depth >= MAX_DEPTH:
            return self._refuse(value, f"nested deeper than {MAX_DEPTH} levels", "nested too deeply")
        self.spend(2)
        self._inside.add(id(value))
        try:
            return convert()
        finally:
            self._inside.discard(id(value))

    def key(self, key):
        """An object's key: what JSON makes of a plain one, else its text."""
        if isinstance(key, str):
            return self.text(key)
        if isinstance(key, Enum):
            return self.key(key.value)
        plain = self.convert(key.item() if arrays.is_scalar(key) else key, MAX_DEPTH - 1)
        if plain is None:
            return "null"
        if plain is True or plain is False:
            return "true" if plain else "false"
        if isinstance(plain, (int, float)):
            return repr(plain)
        if isinstance(plain, str):
            return plain
        if self.strict:
            raise NotJson(f"a dict key of type {type_name(type(key))} has no JSON form")
        text = safe_str(key)
        return self.text(safe_repr(key, MAX_REPR) if text is None else text)

    def _refuse(self, value, reason, label):
        if self.strict:
            raise NotJson(reason)
        return f"<{type_name(type(value))}: {label}>"


def _list(converter, value, depth):
    return converter.array(value, value, depth)


def _sized_list(converter, value, depth):
    converter.spend(len(value))  # an item takes a byte at least: refuse a huge range unseen
    converter.left += len(value)
    return converter.array(value, value, depth)


def _set(converter, value, depth):
    try:
        items = sorted(value)
    except TypeError:
        items = value
    return converter.array(value, items, depth)


def _mapping(converter, value, depth):
    return converter.mapping(value, value.items(), depth)


def _bytes(converter, value, depth):
    data = bytes(value)
    try:
        return converter.text(data.decode())
    except UnicodeDecodeError:
        return converter.text(b64encode(data).decode())


def _isoformat(converter, value, depth):
    return converter.text(value.isoformat())


def _duration(converter, value, depth):
    return converter.text(_iso_duration(value))


def _iso_duration(value):
    """ISO 8601, such as P1DT2H."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    if value.microseconds:
        parts.append(f"{seconds}.{value.microseconds:06}".rstrip("0") + "S")
    elif seconds:
        parts.append(f"{seconds}S")
    clock = "".join(parts)
    days = f"{value.days}D" if value.days else ""
    if clock or not days:
        return f"{sign}P{days}T{clock or '0S'}"
    return f"{sign}P{days}"


def _str(converter, value, depth):
    return converter.text(str(value))


def _listing(converter, value, depth):
    return converter.describe(value) if converter.strict else converter.text(cut_end(str(value), MAX_REPR))


def _enum(converter, value, depth):
    return converter.convert_inside(value, value.value, depth)


# By class; a value is handled by the first of its bases that is here.
_HANDLERS = {
    str: lambda converter, value, depth: converter.text(value),
    int: lambda converter, value, depth: converter.integer(value),
    float: lambda converter, value, depth: converter.number(value),
    list: _list,
    tuple: _list,
    deque: _list,
    UserList: _list,
    array: _sized_list,
    range: _sized_list,
    KeysView: _list,
    ValuesView: _list,
    ItemsView: _list,
    type({}.keys()): _list,
    type({}.values()): _list,
    type({}.items()): _list,
    set: _set,
    frozenset: _set,
    Set: _list,
    dict: _mapping,
    UserDict: _mapping,
    MappingProxyType: _mapping,
    Mapping: _mapping,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    datetime: _isoformat,
    date: _isoformat,
    time: _isoformat,
    timedelta: _duration,
    Decimal: _str,
    Fraction: _str,
    UUID: _str,
    PurePath: _str,
    Enum: _enum,
    Listing: _listing,
}
