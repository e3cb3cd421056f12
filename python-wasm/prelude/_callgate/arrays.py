"""Natural JSON for numpy and pandas, known by name: they may not be loaded, or not be there."""

_names = {}


def handler_of(base):
    """The handler for a class of numpy or pandas, or None."""
    root = _root(base)
    return _names.get((root, base.__name__)) if root in ("numpy", "pandas") else None


def is_scalar(value):
    """Whether the value is a numpy scalar, such as `numpy.int64(1)`."""
    return any(
        base.__name__ == "generic" and _root(base) == "numpy" for base in type(value).__mro__
    )


def _root(base):
    module = base.__module__
    return module.partition(".")[0] if isinstance(module, str) else None


def _handles(library, *names):
    def register(handler):
        for name in names:
            _names[library, name] = handler
        return handler

    return register


@_handles("numpy", "ndarray")
def _array(converter, value, depth):
    _afford(converter, value.size)
    items = _plain_dates(value).tolist()
    # An array without dimensions is its one item.
    return converter.convert_inside(value, items, depth)


@_handles("numpy", "generic")
def _scalar(converter, value, depth):
    item = _plain_dates(value).item()
    # A type that Python lacks, such as a long double, is its own item.
    return converter.describe(value) if type(item) is type(value) else converter.convert(item, depth)


def _plain_dates(value):
    """Dates as text with NaT left out, and time differences as what Python calls them.

    `tolist` would give bare integers for both where they count nanoseconds.
    """
    if value.dtype.kind == "m":
        return value.astype("timedelta64[us]")
    if value.dtype.kind == "M":
        return value.astype("datetime64[us]")
    return value


@_handles("pandas", "NaTType", "NAType")
def _missing(converter, value, depth):
    return None


@_handles("pandas", "Period", "Interval")
def _text(converter, value, depth):
    return converter.text(str(value))


@_handles("pandas", "Index", "ExtensionArray")
def _values(converter, value, depth):
    _afford(converter, len(value))
    return converter.array(value, value.tolist(), depth)


@_handles("pandas", "Series")
def _series(converter, value, depth):
    _afford(converter, len(value))
    if _counts_rows(value.index):
        return converter.array(value, value.tolist(), depth)
    return converter.mapping(value, zip(value.index.tolist(), value.tolist()), depth)


@_handles("pandas", "DataFrame")
def _frame(converter, value, depth):
    # A field is at least its quotes, a colon, a digit and a comma.
    _afford(converter, 5 * len(value) * len(value.columns))
    return converter.array(value, _with_labels(value).to_dict("records"), depth)


def _with_labels(frame):
    """The frame with its index as columns, where the index says something."""
    index = frame.index
    if _counts_rows(index) or _is_row_choice(index):
        return frame
    labels = [name for name in index.names if name is not None]
    if any(name in frame.columns for name in labels):
        return frame
    return frame.reset_index()


def _counts_rows(index):
    """Whether the index is the one that pandas makes when nobody asks for one."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _is_row_choice(index):
    """Whether the index is row numbers of which a filter or a sort left some."""
    kind = getattr(index, "dtype", None)
    return list(index.names) == [None] and getattr(kind, "kind", None) in ("i", "u")


def _afford(converter, least):
    """Refuse what cannot fit before it is unpacked into Python objects."""
    if least > converter.left:
        converter.spend(least)
