"""Natural JSON: a Python value as the JSON text that a reader would expect of it.

Plain values go through the C encoder in one step. What it refuses, or encodes in a way that JSON
readers cannot take, goes through `Converter` first.
"""

from _callgate.convert import MAX_DEPTH, MAX_INT, MIN_INT, Converter, NotJson, TooLarge
from _callgate.errors import ToolCallError
from _callgate.host import plain_json
from _callgate.texts import clean
_CONSTANTS = frozenset((float, bool, type(None)))


class _NotPlain(Exception):
    """The C encoder would refuse the value, or encode it in a way that readers cannot take."""


def encode(value, limit):
    """The value as JSON bytes; raises `TooLarge` when they are more than `limit`."""
    try:
        data = _encode_plain(value, limit)
    except (MemoryError, TooLarge):
        raise
    except BaseException:  # the value's own methods may raise anything
        data = plain_json(Converter(limit, strict=False).convert(value)).encode()
    if len(data) > limit:
        raise TooLarge(len(data))
    return data


def encode_arguments(tool, arguments, limit):
    """A tool call's arguments as JSON bytes; raises `ToolCallError` when they have none."""
    try:
        data = _encode_plain(arguments, limit)
    except MemoryError:
        raise
    except TooLarge:
        raise _too_large(tool, f"more than {limit}", limit) from None
    except BaseException:
        data = _encode_strictly(tool, arguments, limit)
    if len(data) > limit:
        raise _too_large(tool, len(data), limit)
    return data


def _encode_strictly(tool, arguments, limit):
    converter = Converter(limit, strict=True)
    converted = {}
    for name, value in arguments.items():
        try:
            converted[converter.text(name)] = converter.convert(value, 1)
        except NotJson as error:
            reason = f"argument {clean(name)!r} cannot be sent as JSON: {error}"
            raise ToolCallError(tool, reason) from None
        except TooLarge:
            raise _too_large(tool, f"more than {limit}", limit) from None
    return plain_json(converted).encode()


def _too_large(tool, size, limit):
    reason = f"the arguments are {size} bytes of JSON; the limit is {limit} (--max-arguments)"
    return ToolCallError(tool, reason)


def _encode_plain(value, limit):
    _survey(value, limit)
    return plain_json(value).encode()


def _survey(value, limit):
    """Look at the value level by level: is it plain, not too deep, and can it fit?

    It gives up as soon as the text must be larger than the limit, so that a small value which
    holds the same large list a thousand times is not spelled out.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below = []
        for item in level:
            limit -= _least_size(item)
            if limit < 0:
                raise TooLarge
            if type(item) is dict:
                below += item.values()
            elif type(item) is list or type(item) is tuple:
                below += item
        if not below:
            return
        level = below
    raise _NotPlain


def _least_size(item):
    """The bytes an item has at least, without what it contains."""
    kind = type(item)
    if kind is str:
        return len(item) + 2
    if kind is int:
        if MIN_INT <= item <= MAX_INT:
            return 1
        raise _NotPlain
    if kind is dict:
        return 4 * len(item) + 1
    if kind is list or kind is tuple:
        return len(item) + 1
    if kind in _CONSTANTS:
        return 3
    raise _NotPlain
