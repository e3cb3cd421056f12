"""The traceback of the user's code: as CPython prints it, without our frames and the library's."""

from traceback import TracebackException
from types import FunctionType, TracebackType

from _callgate import source
from _callgate.texts import clean, cut_middle, safe_str, type_name

MAX_TEXT = 64 * 1024
# Frames kept at either end of a traceback, and exceptions looked at in a chain or group.
_KEPT_FRAMES = 500
_MAX_EXCEPTIONS = 100

_traceback = BaseException.__dict__["__traceback__"]
_cause = BaseException.__dict__["__cause__"]
_context = BaseException.__dict__["__context__"]
_members = BaseExceptionGroup.__dict__["exceptions"]

# Where the prelude is: `<callgate>` in the guest. (Its tests may run from a checkout below /tmp.)
_own_folder = (lambda: None).__code__.co_filename.rpartition("/")[0] + "/"

# What the library says of modules that are not there, and what it should say here.
_SITE_HINT = (
    ". Site initialization is disabled, did you forget to add the site-packages directory to sys.path "
    "or to enable your virtual environment?"
)
_OUR_HINT = " (it is not part of this sandbox, where nothing can be installed)"

# What was cut off, kept alive: to take a very long chain apart would exhaust the guest's stack.
_kept = []


def describe(error):
    """The text of an exception and of those it is linked to. Never raises, except MemoryError."""
    try:
        trim_all(error)
        source.restore_lines()
        library = TracebackException(type(error), error, _traceback.__get__(error), compact=True)
        text = "".join(library.format()).replace(_SITE_HINT, _OUR_HINT)
        return cut_middle(text, MAX_TEXT)
    except MemoryError:
        raise
    except BaseException:
        text = _describe_simply(error)
    return cut_middle(text, MAX_TEXT)


def trim_all(error):
    """Trim the traceback of the exception and of all that its text will show."""
    seen = set()
    todo = [error]
    while todo and len(seen) < _MAX_EXCEPTIONS:
        error = todo.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        _traceback.__set__(error, _trim(_traceback.__get__(error)))
        if issubclass(type(error), BaseExceptionGroup):
            todo.extend(_members.__get__(error))
        todo += (_context.__get__(error), _cause.__get__(error))
    for error in todo:
        _cut_chain(error)


def _cut_chain(error):
    """The chain is longer than anyone reads: what is left of it ends here."""
    if error is None:
        return
    _traceback.__set__(error, _trim(_traceback.__get__(error)))
    _kept.extend((_cause.__get__(error), _context.__get__(error)))
    _cause.__set__(error, None)
    _context.__set__(error, None)


def _trim(traceback):
    """The same traceback with the user's frames alone, and of very many those at the ends."""
    head, tail, count = [], [], 0
    while traceback is not None:
        if is_user_file(traceback.tb_frame.f_code.co_filename):
            count += 1
            (head if count <= _KEPT_FRAMES else tail).append(traceback)
            if len(tail) > 2 * _KEPT_FRAMES:
                del tail[:_KEPT_FRAMES]
        traceback = traceback.tb_next
    result = _linked(tail[-_KEPT_FRAMES:], None)
    left_out = count - len(head) - min(len(tail), _KEPT_FRAMES)
    if left_out:
        result = _gap(left_out, result)
    return _linked(head, result)


def _linked(entries, rest):
    for entry in reversed(entries):
        rest = TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return rest


def _gap(count, rest):
    """An entry that stands for frames left out; a traceback holds nothing but frames."""

    def never_started():
        yield

    code = never_started.__code__.replace(co_filename="…", co_name=f"<{count} frames left out>")
    return TracebackType(rest, FunctionType(code, {})().gi_frame, -1, 1)


def is_user_file(filename):
    """Whether code with this file name is the user's: the source, files it made, text it ran."""
    if filename.startswith(_own_folder):
        return False
    if filename == source.FILENAME or filename.startswith("/tmp/"):
        return True
    return filename.startswith("<") and filename.endswith(">") and not filename.startswith("<frozen ")


def _describe_simply(error):
    """For when the library's own formatting fails: frames without source lines."""
    lines = ["Traceback (most recent call last):\n"]
    try:
        traceback = _trim(_traceback.__get__(error))
        while traceback is not None:
            code = traceback.tb_frame.f_code
            lines.append(f'  File "{code.co_filename}", line {traceback.tb_lineno}, in {code.co_name}\n')
            traceback = traceback.tb_next
    except MemoryError:
        raise
    except BaseException:  # an audit hook of the user's may refuse to let us see frames
        del lines[1:]
    if len(lines) == 1:
        lines.clear()
    return "".join(lines) + last_line(error)


def last_line(error):
    """`NameError: name 'x' is not defined`."""
    name, text = type_name(type(error)), safe_str(error)
    if text is None:
        text = "<exception str() failed>"
    return clean(f"{name}: {text}\n" if text else f"{name}\n")
