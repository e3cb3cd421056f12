"""The parameters of a function, as a JSON schema and as a check."""

import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import NotRequired, TypedDict

JsonSchema = dict[str, Any]


class Parameters:
    """What a function takes, from its signature."""

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._name = name
        self._signature = inspect.signature(function)
        try:
            hints = _hints(function, self._signature)
            self._adapter = TypeAdapter(_typed_dict(name, self._signature, hints))
            self.schema = _schema(self._adapter, "validation")
        except (NameError, PydanticUserError) as error:
            reason = str(error).partition("\n")[0]
            raise TypeError(f"tool {name!r} needs a JSON schema as `parameters`: {reason}") from error
        self.returns = _return_schema(hints.get("return"))

    def bind(self, arguments: Mapping[str, Any]) -> inspect.BoundArguments:
        """Check arguments, and make of them what the annotations say (a date of its text, for example).

        Raises a `TypeError` that says what is wrong.
        """
        try:
            checked: dict[str, Any] = self._adapter.validate_python(dict(arguments))
        except ValidationError as error:
            raise TypeError(f"{self._name}() got wrong arguments: {problems(error)}") from None
        bound = self._signature.bind_partial()
        for parameter in self._signature.parameters.values():
            if parameter.name in checked:
                bound.arguments[parameter.name] = checked.pop(parameter.name)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[parameter.name] = checked
        return bound


class _WithoutTitles(GenerateJsonSchema):
    """A title that repeats the name says nothing, and models pay for it by the word."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(adapter: TypeAdapter[Any], mode: JsonSchemaMode) -> JsonSchema:
    schema = adapter.json_schema(schema_generator=_WithoutTitles, mode=mode)
    schema.pop("title", None)
    return schema


def _hints(function: Callable[..., object], signature: inspect.Signature) -> dict[str, Any]:
    """The annotations, those that are text resolved."""
    function = inspect.unwrap(getattr(function, "func", function))  # partials, decorators
    if not inspect.isroutine(function):
        function = type(function).__call__
    names = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    resolved = _resolved(names, function)
    try:
        return resolved | _resolved({"return": signature.return_annotation}, function)
    except NameError:
        return resolved  # only a tool's description has it


def _resolved(annotations: dict[str, Any], function: Callable[..., object]) -> dict[str, Any]:
    given = {name: hint for name, hint in annotations.items() if hint is not inspect.Parameter.empty}
    holder = SimpleNamespace(__annotations__=given)
    return typing.get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)


def _typed_dict(name: str, signature: inspect.Signature, hints: dict[str, Any]) -> Any:
    """The parameters as a dictionary's type: unlike a model's fields, its keys may have any name."""
    keys: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, Any)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            extra = "allow"
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue  # calls have only names
        elif parameter.default is inspect.Parameter.empty:
            keys[parameter.name] = hint
        else:
            keys[parameter.name] = NotRequired[_with_default(hint, parameter.default)]
    make: Any = TypedDict  # checkers know only calls that have everything written out
    shape = make(name, keys)
    shape.__pydantic_config__ = ConfigDict(extra=extra)
    return shape


def _with_default(hint: Any, default: object) -> Any:
    """Tells the default where JSON can; the function itself sets it."""
    try:
        shown = to_jsonable_python(default)
    except PydanticSerializationError:
        return hint
    return Annotated[hint, Field(json_schema_extra={"default": shown})]


def _return_schema(hint: Any) -> JsonSchema | None:
    if hint is None or hint is type(None):
        return None
    try:
        return _schema(TypeAdapter(hint), "serialization")
    except PydanticUserError:
        return None


def problems(error: ValidationError) -> str:
    """Say what did not fit, in a line."""
    found = error.errors(include_url=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
