"""The user's source: compiled the way a notebook does, with the last expression's value kept."""

import linecache
from _ast import Expr, Expression, Module, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from types import FunctionType

FILENAME = "main.py"

_CO_COROUTINE = 0x80
# Every flag that a `from __future__` import of the source leaves in its code object.
_FUTURE_FLAGS = 0x1FE0000
_entry = []


class Program:
    """Compiled source: the statements, then the expression whose value the run returns."""

    __slots__ = ("parts", "has_value", "tree", "source")

    def __init__(self, parts, has_value, tree, source):
        self.parts = parts
        self.has_value = has_value
        self.tree = tree
        self.source = source

    @property
    def is_async(self):
        """Whether it awaits at its top level, and so needs an event loop."""
        return any(part.co_flags & _CO_COROUTINE for part in self.parts)

    def run(self, namespace):
        """Run to the end; the value is that of the last expression, or None."""
        value = None
        for function in self._functions(namespace):
            value = function()
        return value if self.has_value else None

    async def run_async(self, namespace):
        """The same inside an event loop: all of it, also the parts that do not await."""
        value = None
        for function in self._functions(namespace):
            value = function()
            if function.__code__.co_flags & _CO_COROUTINE:
                value = await value
        return value if self.has_value else None

    def _functions(self, namespace):
        # All before the first runs: an audit hook of the user's may refuse to let us make more.
        return [FunctionType(part, namespace) for part in self.parts]


def compile_program(source):
    """Compile to a `Program`; raises what the compiler raises."""
    source = source.removeprefix("\ufeff")
    remember_lines(source)
    try:
        return _compile_parts(_compile(source, "exec", PyCF_ONLY_AST), source)
    except SyntaxError as error:
        _show_line(error, source)
        raise


def remember_lines(source):
    """Give tracebacks and `inspect` the source's lines; there is no file they could read."""
    lines = [line + "\n" for line in lines_of(source)]
    _entry[:] = ((len(source), None, lines, FILENAME),)
    restore_lines()


def restore_lines():
    """Put the lines back where tracebacks look, if user code has emptied that cache."""
    if _entry:
        linecache.cache[FILENAME] = _entry[0]


def forget_lines():
    """Take the lines back; for what is not a run."""
    _entry.clear()
    linecache.cache.pop(FILENAME, None)


def _compile_parts(tree, source):
    body = tree.body
    if not body or type(body[-1]) is not Expr:
        return Program((_compile(tree, "exec"),), False, tree, source)
    value = Expression(body[-1].value)
    if len(body) == 1:
        return Program((_compile(value, "eval"),), True, tree, source)
    statements = _compile(Module(body[:-1], tree.type_ignores), "exec")
    future = statements.co_flags & _FUTURE_FLAGS
    return Program((statements, _compile(value, "eval", future)), True, tree, source)


def _compile(source, mode, flags=0):
    flags |= PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, FILENAME, mode, flags, dont_inherit=True)


def _show_line(error, source):
    """Add the text of the line, which the compiler lacks when it was given a tree."""
    if error.text is not None or not error.lineno:
        return
    lines = lines_of(source)
    if error.lineno <= len(lines):
        error.text = lines[error.lineno - 1] + "\n"


def lines_of(source):
    """The lines as the compiler counts them; `splitlines` would also break at form feeds."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
