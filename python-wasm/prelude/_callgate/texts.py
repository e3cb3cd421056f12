"""Text that is safe to put into a frame: exact `str`, encodable, and of bounded length."""

_MARKER = "\n… {} bytes left out …\n"


def clean(text):
    """The text without lone surrogates: the host reads UTF-8 and would refuse the whole frame."""
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Listing:
    """Says in many lines what there is; in one where it stands inside something else, as in `help`."""

    __slots__ = ()

    def __str__(self):
        return repr(self)


def cut_end(text, limit):
    """At most `limit` bytes of UTF-8 and a marker for what is missing at the end."""
    data = clean(text).encode()
    if len(data) <= limit:
        return clean(text)
    return data[:limit].decode("utf-8", "ignore") + f"… ({len(data) - limit} more bytes)"


def cut_middle(text, limit):
    """About `limit` bytes of UTF-8: both ends matter, so the middle goes."""
    data = clean(text).encode()
    if len(data) <= limit:
        return clean(text)
    half = (limit - len(_MARKER) - 20) // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    return head + _MARKER.format(len(data) - 2 * half) + tail


def type_name(kind):
    """A class's own name, even where a metaclass hides it."""
    return _class_name(kind)


_class_name = type.__dict__["__name__"].__get__


def safe_str(value):
    """`str(value)` as an exact `str`, or None if that fails in any way.

    MemoryError too: a `__str__` that builds a gigabyte must not hide the error it describes.
    """
    try:
        return "".join((str(value), ""))
    except BaseException:
        return None


def safe_repr(value, limit):
    """`repr(value)`, bounded; a repr that fails is replaced by a text that says so."""
    try:
        return cut_end("".join((repr(value), "")), limit)
    except MemoryError:
        raise
    except BaseException as error:
        return f"<{type_name(type(value))} object, repr failed: {type_name(type(error))}>"
