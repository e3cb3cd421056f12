"""A tool's JSON schema, as Python shows it: a signature, a docstring, a stub."""

from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any, NotRequired, get_origin
from unicodedata import normalize

from _callgate.annotations import Annotations, type_text
from _callgate.names import identifier

_CONSTRAINTS = {
    "format": "{}", "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "pattern": "matching {}", "minItems": "at least {} items", "maxItems": "at most {} items",
}


class _Unset:
    """The default of an argument that may be left out: the tool decides."""

    def __repr__(self):
        return "..."


_UNSET = _Unset()


def properties_of(schema):
    """The schemas of a tool's arguments by name, in order."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def signature_of(offer, annotations=None):
    """The signature. Arguments that cannot be written as parameters are behind `**`."""
    schema = offer.get("parameters")
    annotations = annotations or _annotations(offer)
    parameters = []
    required = _required(schema)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    seen_optional = False
    seen = set()
    hidden = not properties_of(schema)
    for name, part in properties_of(schema).items():
        plain = normalize("NFKC", name)  # as the compiler does: two names may become one
        if not name.isidentifier() or iskeyword(plain) or plain in seen:
            hidden = True
            kind = Parameter.KEYWORD_ONLY  # by position the ones after it are one further
            continue
        seen.add(plain)
        if name in required and seen_optional:
            kind = Parameter.KEYWORD_ONLY  # Python wants required parameters first
        default = Parameter.empty if name in required else _default(part)
        seen_optional = seen_optional or name not in required
        annotation = annotations.of(part, name)
        if annotation is Any:
            annotation = Parameter.empty
        parameters.append(Parameter(name, kind, default=default, annotation=annotation))
    if hidden:
        parameters.append(Parameter(_free_name(schema), Parameter.VAR_KEYWORD))
    return Signature(parameters)


def docstring_of(offer):
    """The tool's description, then its parameters one by one, then the types that they use."""
    annotations = _annotations(offer)
    lines = [_description(offer), *_parameter_lines(offer, annotations)]
    for name, kind in annotations.typed_dicts.items():
        lines += ["", *_class_lines(name, kind)]
    return "\n".join(lines).strip("\n")


def stub_of(offer):
    """The tool as a function definition, with the types that it uses before it."""
    annotations = _annotations(offer)
    lines = []
    signature = signature_of(offer, annotations)
    body = [_description(offer), *_parameter_lines(offer, annotations)]
    for name, kind in annotations.typed_dicts.items():
        lines += [*_class_lines(name, kind), ""]
    tool = offer["name"]
    name = identifier(tool)
    text = "\n".join(body).strip("\n").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines.append(f"def {name}{signature}: ..." if not text else f"def {name}{signature}:")
    if text:
        inner = text.replace("\n", "\n    ")
        end = "" if "\n" not in text and not text.endswith('"') else "\n    "
        lines.append(f'    """{inner}{end}"""')
    if name != tool:
        lines.append(f"    # call_tool({tool!r}, ...)")
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))


def first_line(offer, limit=120):
    """The beginning of the description."""
    line = _description(offer).strip().partition("\n")[0].strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _annotations(offer):
    return Annotations(offer["name"], offer.get("parameters"))


def _description(offer):
    return str(offer.get("description") or "")


def _parameter_lines(offer, annotations):
    schema = offer.get("parameters")
    parts = properties_of(schema)
    lines = ["", "Parameters:"] if parts else []
    for name, part in parts.items():
        text = part.get("description") if isinstance(part, dict) else None
        traits = _traits(name, part, schema, annotations)
        lines.append(f"    {name} ({traits})" + (f": {text}" if text else ""))
    return lines


def _traits(name, part, schema, annotations):
    """`int, at least 1, default 10`"""
    annotation = annotations.of(part, name)
    traits = ["any" if annotation is Any else type_text(annotation), *_constraints(part)]
    if name in _required(schema):
        traits.append("required")
    else:
        default = _default(part)
        traits.append("optional" if default is _UNSET else f"default {default!r}")
    return ", ".join(traits)


def _constraints(part):
    if not isinstance(part, dict):
        return
    for key, text in _CONSTRAINTS.items():
        value = part.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            yield text.format(value)


def _class_lines(name, kind):
    fields = kind.__annotations__
    if not all(field.isidentifier() and not iskeyword(field) for field in fields):
        inner = ", ".join(f"{field!r}: {_field_text(part)}" for field, part in fields.items())
        return [f"{name} = TypedDict({name!r}, {{{inner}}})"]
    return [f"class {name}(TypedDict):", *(f"    {field}: {_field_text(part)}" for field, part in fields.items())]


def _field_text(kind):
    if get_origin(kind) is NotRequired:
        return f"NotRequired[{type_text(kind.__args__[0])}]"
    return type_text(kind)


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
