"""The types of a JSON schema, as Python annotations."""

import re
from keyword import iskeyword
from typing import Any, Literal, NotRequired, TypedDict, Union

_SIMPLE = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_MAX_DEPTH = 5
_MAX_TYPES = 50
_PREFIX = re.compile(r"\btyping\.")


class Annotations:
    """The annotations of one tool; nested objects become a `TypedDict` each."""

    def __init__(self, tool, schema):
        self._tool = tool
        self._schema = schema
        self._by_reference = {}
        self.typed_dicts = {}  # by name, in the order in which they can be defined

    def of(self, part, name, depth=0):
        """The type for a part of the schema called `name`; `Any` where it says nothing simple."""
        if not isinstance(part, dict) or depth > _MAX_DEPTH:
            return Any
        if "$ref" in part:
            return self._referred(part["$ref"], name, depth)
        if isinstance(part.get("enum"), list):
            return _literal(part["enum"])
        if "const" in part:
            return _literal([part["const"]])
        for key in ("anyOf", "oneOf"):
            if isinstance(part.get(key), list):
                return _union([self.of(one, name, depth + 1) for one in part[key]])
        if isinstance(part.get("allOf"), list) and len(part["allOf"]) == 1:
            return self.of(part["allOf"][0], name, depth + 1)
        kinds = part.get("type")
        if isinstance(kinds, list):
            return _union([self.of({**part, "type": one}, name, depth + 1) for one in kinds])
        return self._of_kind(kinds, part, name, depth)

    def _of_kind(self, kind, part, name, depth):
        if kind == "array":
            return self._array(part, name, depth)
        if kind == "object" or (kind is None and isinstance(part.get("properties"), dict)):
            return self._object(part, name, depth)
        return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any

    def _array(self, part, name, depth):
        first = part.get("prefixItems")
        if isinstance(first, list) and first and part.get("items") is False:
            return tuple[tuple(self.of(item, name, depth + 1) for item in first)]
        item = self.of(part.get("items"), _singular(name), depth + 1)
        return list if item is Any else list[item]

    def _object(self, part, name, depth):
        properties = part.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = self.of(part.get("additionalProperties"), name, depth + 1)
            return dict if values is Any else dict[str, values]
        if depth >= _MAX_DEPTH or len(self.typed_dicts) >= _MAX_TYPES:
            return dict
        title = part.get("title")
        name = title if isinstance(title, str) and _usable(title) else _camel(f"{self._tool} {name}")
        required = part.get("required")
        required = required if isinstance(required, list) else ()
        fields = {}
        for field, inner in properties.items():
            kind = self.of(inner, f"{name} {field}" if depth else field, depth + 1)
            fields[field] = kind if field in required else NotRequired[kind]
        return self._typed_dict(name, fields)

    def _typed_dict(self, name, fields):
        number = 2
        plain = name
        while name in self.typed_dicts and self.typed_dicts[name].__annotations__ != fields:
            name = f"{plain}{number}"
            number += 1
        if name not in self.typed_dicts:
            kind = TypedDict(name, fields)
            kind.__module__ = "builtins"  # so that it is shown by its bare name
            self.typed_dicts[name] = kind
        return self.typed_dicts[name]

    def _referred(self, reference, name, depth):
        """A definition in the same schema, as `#/$defs/Name`; one within itself is named only."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return Any
        if reference in self._by_reference:
            return self._by_reference[reference]
        found = self._schema
        steps = reference[2:].split("/")
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if _usable(steps[-1]) and isinstance(found, dict):
            found = {"title": steps[-1], **found}
            self._by_reference[reference] = steps[-1] if "properties" in found else dict
        else:
            self._by_reference[reference] = Any
        kind = self.of(found, name, depth + 1)
        self._by_reference[reference] = kind
        return kind


def type_text(kind):
    """The annotation as source text."""
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, str):
        return repr(kind)
    if type(kind) is type or hasattr(kind, "__total__"):
        return kind.__name__
    return _PREFIX.sub("", repr(kind)).replace("NoneType", "None")


def _literal(choices):
    if choices and all(isinstance(choice, (str, int, bool, type(None))) for choice in choices):
        return Literal[tuple(choices)]
    return Any


def _union(kinds):
    if not kinds or Any in kinds:
        return Any
    try:
        return Union[tuple(kinds)]
    except TypeError:  # a name alone, of a type within itself
        return Any


def _usable(name):
    return name.isidentifier() and not iskeyword(name) and name not in _TAKEN


_TAKEN = frozenset(("str", "int", "float", "bool", "list", "dict", "tuple", "None", "Any", "Literal", "TypedDict", "NotRequired"))


def _camel(text):
    """`send_mail address` → `SendMailAddress`"""
    words = re.findall(r"[^\W_]+", text)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if _usable(name) else f"T{name}"


def _singular(name):
    return name[:-1] if name.endswith("s") and len(name) > 3 else name
