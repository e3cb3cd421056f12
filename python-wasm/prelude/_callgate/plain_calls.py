"""Finds the calls of tools in a syntax tree that fail for certain if they are reached.

That a call is wrong is for others to say; this decides which calls are what they seem, and whether
what they raise would end the program. Where it cannot tell, the call is left to run time.
"""

import ast

from _callgate.catalogue import Tools
from _callgate.tools import OWN_NAMES, ToolFunction

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
_TRIES = (ast.Try, ast.TryStar)
_WITHS = (ast.With, ast.AsyncWith)
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Match)

# Nodes that bind names which are no `Name`.
_BINDERS = tuple(
    getattr(ast, name)
    for name in ("ExceptHandler", "MatchAs", "MatchStar", "MatchMapping", "TypeVar", "ParamSpec", "TypeVarTuple")
    if hasattr(ast, name)
)

# Whoever uses one of these may bind any name.
_DYNAMIC = frozenset((
    "exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "__import__", "import_module",
    "__builtins__", "builtins", "__main__", "__dict__", "__globals__", "f_globals", "f_locals", "modules",
    "mock", "patch", "monkeypatch",
))

# Where one of these is used, what a function raises may be somebody else's to handle.
_CATCHING = frozenset((
    "submit", "apply_async", "map_async", "starmap_async", "imap", "imap_unordered", "run_in_executor",
    "to_thread", "Thread", "start_new_thread", "create_task", "ensure_future", "call_soon", "call_later",
    "call_at", "call_soon_threadsafe", "run_coroutine_threadsafe", "add_done_callback", "as_completed",
    "exception", "TestCase", "register", "finalize", "__del__", "excepthook", "set_exception_handler",
    "ExitStack", "AsyncExitStack", "suppress",
))

# Context managers that are known to let exceptions pass; any other may end them.
_PASSING = frozenset((
    "open", "TaskGroup", "timeout", "timeout_at", "ThreadPoolExecutor", "ProcessPoolExecutor", "Pool",
    "ThreadPool", "Lock", "Semaphore", "BoundedSemaphore", "redirect_stdout", "redirect_stderr", "closing",
    "nullcontext", "TemporaryDirectory", "connect",
))

# Decorators that leave a function what it is.
_PLAIN_DECORATORS = frozenset((
    "staticmethod", "classmethod", "property", "dataclass", "dataclasses", "lru_cache", "cache", "functools",
    "cached_property", "setter", "override", "typing", "total_ordering",
))

# What awaits its arguments at once.
_AWAITING = frozenset(("gather", "run", "wait_for", "run_until_complete"))


class Form:
    """How a call names its tool and passes its arguments."""

    __slots__ = ("tool", "server", "skip", "by_dict", "parameters")

    def __init__(self, tool, server=None, skip=0, by_dict=False, parameters=()):
        self.tool = tool
        self.server = server
        self.skip = skip
        self.by_dict = by_dict
        self.parameters = parameters


class Found:
    """A call that may be one of a tool."""

    __slots__ = ("node", "form", "name", "awaitable", "misused", "deferred", "decorated", "conditional")

    def __init__(self, node, form, name, awaitable, place):
        self.node = node
        self.form = form
        self.name = name
        self.awaitable = awaitable
        self.misused = False  # awaited, though it is not awaitable
        self.deferred = place.deferred
        self.decorated = place.decorated
        self.conditional = place.conditional


class _Place:
    """Where in the program a node is."""

    __slots__ = ("guarded", "deferred", "decorated", "conditional")

    def __init__(self, guarded=False, deferred=False, decorated=False, conditional=False):
        self.guarded = guarded  # in what may handle an exception
        self.deferred = deferred  # in what runs when it is called
        self.decorated = decorated  # in a function that may have become another
        self.conditional = conditional  # in what may be skipped

    def with_(self, **changes):
        changed = {name: getattr(self, name) or changes.get(name, False) for name in self.__slots__}
        return _Place(**changed)


class PlainCalls:
    """One walk over a tree."""

    def __init__(self, namespace):
        self._tools = {name: tool for name, tool in namespace.items() if type(tool) is ToolFunction}
        self._own = {name for name in OWN_NAMES if name in namespace}
        self._space = namespace.get("tools")
        self._found = []
        self._bound = set()  # names that the source binds
        self._attributes = set()  # attributes that it sets
        self._passing = set()  # context managers that let exceptions pass, as long as nobody binds the name
        self._catches = False
        self._dynamic = False
        self._awaited = set()  # nodes whose value is awaited at once
        self._gathered = set()  # nodes whose value is handed to what awaits it
        self._asyncio_awaits = set()  # those that are handed to asyncio itself
        self._rebound = set()  # names that are bound by more than an import of their own

    def find(self, tree):
        """The calls that end the program if they are wrong, in the order of the source."""
        self._walk(tree)
        if self._dynamic or self._attributes & {"aio", "__call__"} or self._passing & self._bound:
            return []
        calls = [found for found in self._found if self._is_certain(found)]
        for found in calls:
            by_asyncio = id(found.node) in self._asyncio_awaits and "asyncio" not in self._rebound
            found.misused = not found.awaitable and (id(found.node) in self._awaited or by_asyncio)
        return sorted(calls, key=lambda found: (found.node.lineno, found.node.col_offset))

    def _is_certain(self, found):
        if found.name in self._bound or found.decorated:
            return False
        if found.awaitable and id(found.node) not in self._awaited:
            if self._catches or id(found.node) not in self._gathered:
                return False
        if self._catches and found.deferred:
            return False
        target = found.node.func
        return not (type(target) is ast.Attribute and target.attr in self._attributes)

    def _walk(self, root):
        waiting = [(root, _Place())]
        while waiting:
            node, place = waiting.pop()
            self._meet(node, place)
            place = self._inside(node, place)
            for field in node._fields:
                child = getattr(node, field, None)
                if type(child) is list:
                    waiting += [(one, place) for one in child if isinstance(one, ast.AST)]
                elif isinstance(child, ast.AST):
                    waiting.append((child, place))

    def _inside(self, node, place):
        """The place of what is inside a node."""
        kind = type(node)
        if kind in _TRIES:
            self._catches = True
            return place.with_(guarded=True)
        if kind in _WITHS and not all(map(self._passes, node.items)):
            self._catches = True
            return place.with_(guarded=True)
        if kind in _DEFINITIONS:
            decorated = not all(map(_is_plain_decorator, node.decorator_list))
            return place.with_(deferred=kind is not ast.ClassDef, decorated=decorated)
        if kind in _DEFERRED:
            return place.with_(deferred=True)
        if kind in _CONDITIONS:
            return place.with_(conditional=True)
        return place

    def _meet(self, node, place):
        kind = type(node)
        if kind is ast.Name:
            self._meet_word(node.id)
            if type(node.ctx) is not ast.Load:
                self._bound.add(node.id)
                self._rebound.add(node.id)
        elif kind is ast.Attribute:
            self._meet_word(node.attr)
            if type(node.ctx) is not ast.Load:
                self._attributes.add(node.attr)
        elif kind is ast.Call:
            self._meet_call(node, place)
        elif kind is ast.Await:
            self._awaited.add(id(node.value))
        elif kind in _DEFINITIONS:
            self._meet_word(node.name)
            self._bound.add(node.name)
            self._rebound.add(node.name)
        elif kind is ast.arg:
            self._bound.add(node.arg)
            self._rebound.add(node.arg)
        elif kind is ast.alias:
            self._meet_import(node)
        elif kind is ast.ImportFrom:
            for word in (node.module or "").split("."):
                self._meet_word(word)
        elif kind in (ast.Global, ast.Nonlocal):
            self._bound.update(node.names)
        elif kind in _BINDERS:
            self._bound.update(
                name for name in (getattr(node, "name", None), getattr(node, "rest", None)) if type(name) is str
            )

    def _meet_word(self, word):
        if word in _DYNAMIC:
            self._dynamic = True
        elif word in _CATCHING:
            self._catches = True

    def _meet_import(self, alias):
        if alias.name == "*":
            self._dynamic = True
        for word in alias.name.split("."):
            self._meet_word(word)
        name = alias.asname or alias.name.partition(".")[0]
        if name != alias.name:
            self._rebound.add(name)
        # A context manager under its own name is the library's.
        if alias.asname is not None or name not in _PASSING:
            self._bound.add(name)

    def _meet_call(self, node, place):
        for keyword in node.keywords:
            if keyword.arg == "return_exceptions":
                self._catches = True
        name = _last_name(node.func)
        if name in _AWAITING:
            self._gathered.update(_awaited_by(node))
            if type(node.func) is ast.Attribute and getattr(node.func.value, "id", None) == "asyncio":
                self._asyncio_awaits.update(_awaited_by(node))
        if place.guarded:
            return
        name, form, awaitable = self._form(node)
        if form is not None:
            self._found.append(Found(node, form, name, awaitable, place))

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
            tool = getattr(self._space, target.attr, None) if type(self._space) is Tools else None
            if target.value.id == "tools" and type(tool) is ToolFunction:
                return "tools", _of_tool(tool), False
        return None, None, False

    def _passes(self, item):
        """Whether an exception gets through this context manager."""
        node = item.context_expr
        name = _last_name(node.func if type(node) is ast.Call else node)
        if name not in _PASSING:
            return False
        self._passing.add(name)
        return True


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


def _last_name(node):
    if type(node) is ast.Attribute:
        return node.attr
    return node.id if type(node) is ast.Name else None


def _is_plain_decorator(node):
    node = node.func if type(node) is ast.Call else node
    return _last_name(node) in _PLAIN_DECORATORS


def _awaited_by(node):
    """The arguments of a call, also those that it makes on the spot: `gather(*(f(x) for x in y))`."""
    for argument in node.args:
        if type(argument) is ast.Starred:
            argument = argument.value
            if type(argument) in (ast.GeneratorExp, ast.ListComp):
                yield id(argument.elt)
        else:
            yield id(argument)
