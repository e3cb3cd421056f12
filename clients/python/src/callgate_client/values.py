"""Results of tools, as JSON."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticSerializationError, from_json, to_json


def to_json_bytes(value: object) -> bytes:
    """Turn a value into JSON, or raise a `TypeError` that names what can't be.

    Data classes and pydantic models become objects; sets, tuples and arrays lists; data frames lists of
    records; dates, decimals and ids text; enums their values; bytes text where they are UTF-8, else base64;
    NaN and infinities null.
    """
    if isinstance(value, Iterator):
        value = list(value)  # it can be read only once
    elif isinstance(value, BaseModel) and type(value).__name__ == "CallToolResult":
        # What another MCP server answered goes on as it came: callgate unwraps it.
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        try:
            return _serialized(value)
        except PydanticSerializationError as error:
            if "invalid utf-8" not in str(error):
                raise
        return _serialized(_with_base64(value))
    except (PydanticSerializationError, RecursionError) as error:
        raise TypeError(_reason(error)) from error


def to_json_value(value: object) -> JsonValue:
    """Turn a value into what JSON can say, by the same rules."""
    parsed: JsonValue = from_json(to_json_bytes(value))
    return parsed


def _serialized(value: object) -> bytes:
    return to_json(value, inf_nan_mode="null", fallback=_converted)


def _converted(value: Any) -> object:
    """Stand in for what pydantic does not know."""
    if callable(getattr(value, "notna", None)):  # data frames and series
        value = value.astype(object).where(value.notna(), None)
        return value.to_dict(orient="records") if hasattr(value, "columns") else value.tolist()
    if callable(getattr(value, "tolist", None)):  # arrays and their scalars
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Set | ValuesView):
        return list(value)
    kind = type(value)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not JSON")


def _with_base64(value: Any) -> object:
    """Make text of all bytes: pydantic's own base64 has another alphabet, and would be for all of them."""
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: _with_base64(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_with_base64(item) for item in value]
    if is_dataclass(value):
        return {field.name: _with_base64(getattr(value, field.name)) for field in fields(value)}
    return value


def _reason(error: Exception) -> str:
    reason = str(error).removeprefix("Error serializing to JSON: ")
    return reason.removeprefix("TypeError: ").removeprefix("ValueError: ")
