"""A tool's JSON schema, as Python shows it: a signature and a docstring."""

from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any, Literal, Union

_SIMPLE = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_MAX_DEPTH = 4


class _Unset:
    """The default of an argument that may be left out: the tool decides."""

    def __repr__(self):
        return "..."


_UNSET = _Unset()


def properties_of(schema):
    """The schemas of a tool's arguments by name, in order."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def signature_of(schema):
    """The signature. Arguments that cannot be written as parameters are behind `**`."""
    parameters = []
    required = _required(schema)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    seen_optional = False
    hidden = not properties_of(schema)
    for name, part in properties_of(schema).items():
        if not name.isidentifier() or iskeyword(name):
            hidden = True
            kind = Parameter.KEYWORD_ONLY  # by position the ones after it are one further
            continue
        if name in required and seen_optional:
            kind = Parameter.KEYWORD_ONLY  # Python wants required parameters first
        default = Parameter.empty if name in required else _default(part)
        seen_optional = seen_optional or name not in required
        annotation = _annotation(part, schema, 0)
        if annotation is Any:
            annotation = Parameter.empty
        parameters.append(Parameter(name, kind, default=default, annotation=annotation))
    if hidden:
        parameters.append(Parameter(_free_name(schema), Parameter.VAR_KEYWORD))
    return Signature(parameters)


def docstring_of(offer):
    """The tool's description, then its parameters one by one."""
    lines = [str(offer.get("description") or "")]
    schema = offer.get("parameters")
    parts = properties_of(schema)
    if parts:
        lines += ["", "Parameters:"]
    for name, part in parts.items():
        text = part.get("description") if isinstance(part, dict) else None
        lines.append(f"    {name} ({_traits(name, part, schema)})" + (f": {text}" if text else ""))
    return "\n".join(lines).strip("\n")


def _traits(name, part, schema):
    """`int, default 10`"""
    kind = _type_text(_annotation(part, schema, 0))
    if name in _required(schema):
        return f"{kind}, required"
    default = _default(part)
    return f"{kind}, optional" if default is _UNSET else f"{kind}, default {default!r}"


def _type_text(annotation):
    if annotation is None:
        return "None"
    if annotation is Any:
        return "any"
    if type(annotation) is type:
        return annotation.__name__
    return repr(annotation).replace("typing.", "")


def _required(schema):
    required = schema.get("required") if isinstance(schema, dict) else None
    return required if isinstance(required, list) else ()


def _default(part):
    return part.get("default", _UNSET) if isinstance(part, dict) else _UNSET


def _free_name(schema):
    name = "arguments"
    while name in properties_of(schema):
        name += "_"
    return name


def _annotation(part, schema, depth):
    """A type for a part of the schema; `Any` where it says nothing simple."""
    if not isinstance(part, dict) or depth > _MAX_DEPTH:
        return Any
    if "$ref" in part:
        return _annotation(_resolve(part["$ref"], schema), schema, depth + 1)
    if isinstance(part.get("enum"), list):
        return _literal(part["enum"])
    if "const" in part:
        return _literal([part["const"]])
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            return _union([_annotation(one, schema, depth + 1) for one in part[key]])
    kinds = part.get("type")
    if isinstance(kinds, list):
        return _union([_annotation({**part, "type": one}, schema, depth + 1) for one in kinds])
    if kinds == "array":
        item = _annotation(part.get("items"), schema, depth + 1)
        return list if item is Any else list[item]
    if kinds == "object":
        return dict
    return _SIMPLE.get(kinds, Any) if isinstance(kinds, str) else Any


def _resolve(reference, schema):
    """A definition in the same schema, as `#/$defs/Name`; None if it is not there."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = schema
    for step in reference[2:].split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _literal(choices):
    if choices and all(isinstance(choice, (str, int, bool, type(None))) for choice in choices):
        return Literal[tuple(choices)]
    return Any


def _union(kinds):
    return Any if not kinds or Any in kinds else Union[tuple(kinds)]
