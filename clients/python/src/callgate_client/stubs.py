"""Tools, as Python functions that a model can read."""

import keyword
from collections.abc import Mapping
from typing import Any

from callgate_client.parameters import JsonSchema

_NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def stub(name: str, description: str, parameters: JsonSchema | None, returns: JsonSchema | None) -> str:
    """Write a tool as a function definition, with its description below."""
    schema = parameters or {}
    required = schema.get("required", ())
    items = schema.get("properties", {}).items()
    arguments = [_argument(key, part, key in required, schema) for key, part in items]
    result = "" if returns is None else f" -> {_type(returns, returns)}"
    # Names of servers elsewhere need not be Python's.
    if _is_name(name) and all(map(_is_name, dict(items))):
        line = f"def {name}({', '.join(['*', *arguments] if arguments else arguments)}){result}"
    else:
        line = f"call_tool({', '.join([repr(name), *arguments])}){result}"
    described = (f"{key}: {part['description']}" for key, part in items if _described(part))
    texts = filter(None, [description.strip(), *described])
    return "\n".join([line, *(f"    {row}".rstrip() for text in texts for row in text.splitlines())])


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _described(part: object) -> bool:
    return isinstance(part, dict) and bool(part.get("description"))


def _argument(name: str, part: object, required: bool, root: JsonSchema) -> str:
    text = f"{name}: {_type(part, root)}"
    if required:
        return text
    default = part.get("default", ...) if isinstance(part, dict) else ...
    return f"{text} = {default!r}" if default is not ... else f"{text} = ..."


def _type(schema: object, root: JsonSchema, above: tuple[str, ...] = ()) -> str:
    """Write a type; objects with known keys as `{"name": str}`, which says more than `dict`."""
    if not isinstance(schema, Mapping):
        return "Any"
    if "$ref" in schema:
        return _referred(schema["$ref"], root, above)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(map(repr, values))}]"
    kinds = schema.get("anyOf") or schema.get("oneOf")
    if not kinds and isinstance(schema.get("type"), list):
        kinds = [{**schema, "type": kind} for kind in schema["type"]]
    if kinds:
        return " | ".join(dict.fromkeys(_type(kind, root, above) for kind in kinds))
    return _plain_type(schema, root, above)


def _plain_type(schema: Mapping[str, Any], root: JsonSchema, above: tuple[str, ...]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type(schema['items'], root, above)}]" if "items" in schema else "list"
    if kind != "object":
        return _NAMES.get(kind or "", "Any")
    if properties := schema.get("properties"):
        return (
            "{" + ", ".join(f'"{key}": {_type(part, root, above)}' for key, part in properties.items()) + "}"
        )
    values = schema.get("additionalProperties")
    return f"dict[str, {_type(values, root, above)}]" if isinstance(values, Mapping) else "dict"


def _referred(reference: str, root: JsonSchema, above: tuple[str, ...]) -> str:
    if reference in above:
        return "dict"  # a type that has itself inside
    target: Any = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    return _type(target, root, (*above, reference))
