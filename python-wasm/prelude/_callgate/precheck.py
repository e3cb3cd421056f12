"""Calls of tools that stand plainly in the source, checked before any of it runs.

Nothing is reported that could be right: a name that the source binds anew is not the tool, and what a
`try` may catch is left to run time. The host compares the calls with the tools' schemas.
"""

from ast import Call as CallNode
from ast import Constant, Starred, literal_eval, walk

from _callgate import host, values
from _callgate.errors import ToolCallError
from _callgate.plain_calls import PlainCalls
from _callgate.source import lines_of
from _callgate.texts import clean, cut_end
from _callgate.tools import ToolFunction

_MAX_CALLS = 500
_MAX_LITERAL = 1 << 16
_MAX_REPORTED = 20  # the host looks for no more
_MAX_LINE = 200


class Precheck(Exception):
    """The program has calls that cannot work; the text says which and why."""


def check(program, namespace):
    """Raise `Precheck` if calls in the source would fail whatever happens before them."""
    try:
        report = _find(program, namespace)
    except (UnicodeError, RecursionError):
        return  # it cannot be said, so it is left to run time
    if report is not None:
        raise Precheck(report)


def _find(program, namespace):
    tools = {tool.__name__: tool for tool in namespace.values() if type(tool) is ToolFunction}
    calls = []
    for found in PlainCalls(namespace).find(program.tree)[:_MAX_CALLS]:
        # Where the program asks first whether a tool is there, it may be missing.
        if found.conditional and (found.form.server or found.form.tool not in tools):
            continue
        call = _read(found)
        if call is not None:
            calls.append(call)
    if not calls:
        return None
    problems = host.precheck([call.frame() for call in calls])
    wrong = [(call, texts) for call, texts in zip(calls, problems) if call.problem or texts]
    return _report(wrong, program.source, tools) if wrong else None


class Call:
    """A call as the host wants to know it."""

    def __init__(self, node, form):
        self.node = node
        self.tool = form.tool
        self.server = form.server
        self.arguments = {}
        self.unknown = []
        self.open = False
        self.problem = None

    def add(self, name, node):
        """An argument: its value, if it is a literal."""
        try:
            if type(node) is not Constant and any(type(part) is CallNode for part in walk(node)):
                raise ValueError("`set()` is a literal only as long as nobody binds the name")
            value = {name: literal_eval(node)}
            self.arguments.update(host.decode(values.encode_arguments(self.tool, value, _MAX_LITERAL)))
        except (ValueError, TypeError, SyntaxError, RecursionError, ToolCallError):
            self.unknown.append(name)

    def frame(self):
        """What goes to the host."""
        return {
            "tool": clean(self.tool),
            "server": self.server and clean(self.server),
            "arguments": self.arguments,
            "unknown": [clean(name) for name in self.unknown],
            "open": self.open or self.problem is not None,
        }


def _read(found):
    """The call's arguments; None if they cannot be told apart before the program runs."""
    node, form = found.node, found.form
    call = Call(node, form)
    if found.misused:
        call.problem = _misuse(found)
        return call
    positional = node.args[form.skip:]
    if any(type(argument) is Starred for argument in node.args):
        return None
    if form.by_dict:
        if not _read_dict(call, positional):
            return None
    elif not _read_positional(call, positional, form.parameters):
        return call
    for keyword in node.keywords:
        if keyword.arg is None:
            call.open = True
        else:
            call.add(keyword.arg, keyword.value)
    return call


def _misuse(found):
    """What to write instead of awaiting a function that returns its value."""
    twin = {
        "call_tool": "write `await call_tool_async(...)`",
        "call_mcp_tool": "leave the `await` out",
        "tools": f"write `await tools.{getattr(found.node.func, 'attr', 'NAME')}.aio(...)`",
    }.get(found.name, f"write `await {found.name}.aio(...)`")
    return f"this returns the tool's value and cannot be awaited; {twin}"


def _read_positional(call, arguments, names):
    """Positional arguments get the names of the schema's properties; false if there are too many."""
    if len(arguments) > len(names):
        takes = f"{len(names)} positional argument{'' if len(names) == 1 else 's'}"
        if not names:
            takes = "keyword arguments only"
        call.problem = f"{len(arguments)} positional arguments, but the tool takes {takes}"
        return False
    for name, node in zip(names, arguments):
        call.add(name, node)
    return True


def _read_dict(call, arguments):
    """`call_tool("name", {"x": 1})`: false if the dict is not written out."""
    if not arguments:
        return True
    dictionary = arguments[0]
    if len(arguments) > 1 or type(dictionary).__name__ != "Dict":
        return False
    for key, value in zip(dictionary.keys, dictionary.values):
        name = getattr(key, "value", None)
        if type(name) is not str:
            return False
        call.add(name, value)
    return True


def _report(wrong, source, tools):
    count = len(wrong)
    if count == 1:
        lines = ["Nothing was run: a tool call in the program cannot work."]
    else:
        more = " or more" if count >= _MAX_REPORTED else ""
        lines = [f"Nothing was run: {count}{more} tool calls in the program cannot work."]
    for call, problems in wrong[:_MAX_REPORTED]:
        lines += ["", *_place(call.node, source)]
        lines += [f"  {problem}" for problem in ([call.problem] if call.problem else problems)]
        tool = tools.get(call.tool) if call.server is None else None
        if tool is not None:
            lines.append(f"  The tool is {tool.__name__}{tool.__signature__}")
    lines += ["", "A call inside `try` is not checked beforehand.", ""]
    return "\n".join(lines)


def _place(node, source):
    """The line of the call, as in a traceback."""
    lines = lines_of(source)
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    start = len(line.encode()[: node.col_offset].decode("utf-8", "ignore"))
    end = len(line.rstrip())
    if node.end_lineno == node.lineno:
        end = len(line.encode()[: node.end_col_offset].decode("utf-8", "ignore"))
    indent = len(line) - len(line.lstrip())
    shown, start, end = line[indent:], start - indent, end - indent
    yield f'  File "main.py", line {node.lineno}'
    if len(shown) > _MAX_LINE:
        yield "    " + cut_end(shown, _MAX_LINE)
        return
    yield "    " + shown.rstrip()
    yield "    " + " " * start + "^" * max(1, end - start)
