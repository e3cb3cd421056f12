"""Standard output and error, through whatever user code does to them."""

import sys

_originals = []


def prepare():
    """Stream line by line, and print what UTF-8 cannot hold as an escape instead of failing.

    The streams are part of the snapshot, so in a run this has been done already.
    """
    if _originals and sys.stdout is _originals[0] and sys.stderr is _originals[1]:
        return
    _originals[:] = (sys.stdout, sys.stderr)
    for stream in _originals:
        try:
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        except (AttributeError, ValueError):
            continue  # not a text file, or closed: nothing to prepare


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
