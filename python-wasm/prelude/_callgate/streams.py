"""Standard output and error, through whatever user code does to them."""

import sys
from io import BufferedWriter, TextIOWrapper

_originals = []


def install():
    """Take the place of the interpreter's streams, before the snapshot.

    Each write reaches the host at once, as with `python -u`: nothing is lost when a run is cut off,
    and one buffer less is even faster. What UTF-8 cannot hold is printed as an escape.
    """
    if _originals:
        return
    for name in ("stdout", "stderr"):
        stream = _unbuffered(_names[name])
        _names[name] = _names[f"__{name}__"] = stream
        _originals.append(stream)


def _unbuffered(stream):
    name = stream.name
    buffer = stream.detach()
    raw = buffer.detach() if isinstance(buffer, BufferedWriter) else buffer
    stream = TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
    raw.name = name
    stream.mode = "w"
    return stream


def flush():
    """Flush what user code put in place, then the originals beneath; failures say nothing."""
    for stream in (*(_current(name) for name in ("stdout", "stderr")), *_originals):
        try:
            stream.flush()
        except BaseException:
            continue


def write_error(text):
    """Print to standard error, as the interpreter does when it exits."""
    for stream in (_current("stderr"), *_originals[1:]):
        try:
            stream.write(text)
            return
        except BaseException:
            continue


def _current(name):
    return _names.get(name)


_names = vars(sys)
