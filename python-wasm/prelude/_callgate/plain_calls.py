"""Finds the calls of tools in a syntax tree, but for those that may mean something else."""

import ast

from _callgate.tools import OWN_NAMES, ToolFunction

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TRIES = (ast.Try, ast.TryStar)
_WITHS = (ast.With, ast.AsyncWith)

# Whoever uses one of these may bind any name.
_DYNAMIC_NAMES = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "__import__",
                  "__builtins__", "builtins"}
_DYNAMIC_ATTRIBUTES = {"__dict__", "__globals__", "f_globals", "f_locals", "modules", "exec", "eval"}

# Nodes that bind names which are no `Name`.
_BINDERS = tuple(
    getattr(ast, name)
    for name in ("ExceptHandler", "MatchAs", "MatchStar", "MatchMapping", "TypeVar", "ParamSpec", "TypeVarTuple")
    if hasattr(ast, name)
)

# Context managers that are known to let exceptions pass; any other may end them.
_PASSING = {"open", "TaskGroup", "timeout", "timeout_at", "ThreadPoolExecutor", "ProcessPoolExecutor",
            "Pool", "ThreadPool", "Lock", "Semaphore", "BoundedSemaphore", "redirect_stdout",
            "redirect_stderr", "closing", "nullcontext", "TemporaryDirectory", "connect"}


class Form:
    """How a call names its tool and passes its arguments."""

    __slots__ = ("tool", "server", "skip", "by_dict", "parameters")

    def __init__(self, tool, server=None, skip=0, by_dict=False, parameters=()):
        self.tool = tool
        self.server = server
        self.skip = skip
        self.by_dict = by_dict
        self.parameters = parameters


class PlainCalls:
    """One walk over a tree."""

    def __init__(self, namespace):
        self._tools = {name: tool for name, tool in namespace.items() if type(tool) is ToolFunction}
        self._own = {name for name in OWN_NAMES if name in namespace}
        self._namespace = namespace
        self._calls = []  # (node, form, names of the functions and classes around it, is awaitable)
        self._bound = set()
        self._functions = {}  # name → nodes that define it
        self._guarded = set()  # names that appear where exceptions may be caught
        self._anything = False  # whether there something may be called that we cannot name
        self._called_there = set()
        self._values_bound = set()  # names bound by anything but a definition
        self._dynamic = False
        self._collects = False

    def find(self, tree):
        """The calls that are what they seem, each with its form, in the order of the source."""
        self._walk(tree, False, ())
        if self._dynamic:
            return []
        self._spread()
        calls = [
            (node, form)
            for node, form, name, around, awaitable in self._calls
            if name not in self._bound
            and not (self._guarded & set(around))
            and not (around and self._anything)
            and not (awaitable and self._collects)
        ]
        return sorted(calls, key=lambda call: (call[0].lineno, call[0].col_offset))

    def _walk(self, root, guarded, around):
        waiting = [(root, guarded, around)]
        while waiting:
            node, guarded, around = waiting.pop()
            kind = type(node)
            if kind is ast.Name:
                self._meet_name(node, guarded)
            elif kind is ast.Call:
                self._meet_call(node, guarded, around)
            elif kind is ast.Attribute:
                if guarded:
                    self._guarded.add(node.attr)
                self._dynamic = self._dynamic or node.attr in _DYNAMIC_ATTRIBUTES
            elif kind in _NAMED:
                self._bound.add(node.name)
                self._functions.setdefault(node.name, []).append(node)
                around = (*around, node.name)
            elif kind is ast.Lambda:
                around = (*around, "<lambda>")
            elif kind in _TRIES:
                guarded = True
            elif kind in _WITHS:
                guarded = guarded or not all(map(_passes, node.items))
            else:
                self._meet_binding(node, kind)
            for field in node._fields:
                child = getattr(node, field, None)
                if type(child) is list:
                    waiting += [(one, guarded, around) for one in child if isinstance(one, ast.AST)]
                elif isinstance(child, ast.AST):
                    waiting.append((child, guarded, around))

    def _meet_name(self, node, guarded):
        name = node.id
        if type(node.ctx) is not ast.Load:
            self._bound.add(name)
            self._values_bound.add(name)
        elif name in _DYNAMIC_NAMES:
            self._dynamic = True
        if guarded:
            self._guarded.add(name)

    def _meet_call(self, node, guarded, around):
        if guarded:
            target = node.func
            if type(target) is ast.Name:
                self._called_there.add(target.id)
            elif type(target) is not ast.Attribute:
                self._anything = True
        for keyword in node.keywords:
            if keyword.arg == "return_exceptions":
                self._collects = True
        if guarded:
            return
        name, form, awaitable = self._form(node)
        if form is not None:
            self._calls.append((node, form, name, around, awaitable))

    def _meet_binding(self, node, kind):
        if kind is ast.arg:
            self._bound.add(node.arg)
            self._values_bound.add(node.arg)
        elif kind is ast.alias:
            if node.name == "*":
                self._dynamic = True
            name = node.asname or node.name.partition(".")[0]
            self._bound.add(name)
            self._dynamic = self._dynamic or name in _DYNAMIC_NAMES
        elif kind in (ast.Global, ast.Nonlocal):
            self._bound.update(node.names)
        elif kind in _BINDERS:
            for name in (getattr(node, "name", None), getattr(node, "rest", None)):
                if type(name) is str:
                    self._bound.add(name)
                    self._values_bound.add(name)

    def _spread(self):
        """What a guarded function names is guarded as well."""
        if self._called_there & self._values_bound:
            self._anything = True
        waiting = [name for name in self._guarded if name in self._functions]
        while waiting:
            for function in self._functions.pop(waiting.pop(), ()):
                for node in ast.walk(function):
                    name = getattr(node, "id", None) or getattr(node, "attr", None)
                    if name and name not in self._guarded:
                        self._guarded.add(name)
                        if name in self._functions:
                            waiting.append(name)

    def _form(self, node):
        """The name that the call hangs on, how it passes its arguments, and if it is awaitable."""
        target = node.func
        if type(target) is ast.Attribute and target.attr == "aio":
            name, form, _ = self._form_of(target.value, node)
            return name, form, True
        return self._form_of(target, node)

    def _form_of(self, target, node):
        if type(target) is ast.Name:
            name = target.id
            if name in self._tools:
                return name, _of_tool(self._tools[name]), False
            if name in self._own:
                return name, _by_name(name, node), name == "call_tool_async"
        elif type(target) is ast.Attribute and type(target.value) is ast.Name:
            name = target.value.id
            space = self._namespace.get(name)
            tool = space.find(target.attr) if name == "tools" and hasattr(space, "find") else None
            if tool is not None:
                return name, _of_tool(tool), False
        return None, None, False


def _of_tool(tool):
    return Form(tool.__name__, parameters=tool.parameter_names())


def _by_name(name, node):
    """`call_tool("web_search", …)` and its kin, where the names are written out."""
    skip = {"call_tool": 1, "call_tool_async": 1, "call_mcp_tool": 2}.get(name)
    if skip is None:
        return None
    names = [getattr(argument, "value", None) for argument in node.args[:skip]]
    if len(names) < skip or not all(type(one) is str for one in names):
        return None
    return Form(names[-1], names[0] if skip == 2 else None, skip, by_dict=True)


def _passes(item):
    """Whether an exception gets through this context manager."""
    node = item.context_expr
    if type(node) is ast.Await:
        node = node.value
    if type(node) is ast.Call:
        node = node.func
    name = node.attr if type(node) is ast.Attribute else getattr(node, "id", None)
    return name in _PASSING
