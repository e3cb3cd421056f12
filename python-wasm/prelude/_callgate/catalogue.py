"""`tools` and `search_tools`: how the program finds out what was offered."""

from _callgate import servers
from _callgate.ranking import Ranking
from _callgate.signatures import first_line, stub_of
from _callgate.texts import Listing, clean

_SHOWN = 100
_STUBS_HEAD = "from typing import Any, Literal, NotRequired, TypedDict"


class Tools(Listing):
    """The offered tools: `tools.web_search(...)`, `tools["web-search"]`, `dir(tools)`.

    All names belong to the tools; ours are found only where they leave room.
    """

    __slots__ = ("__functions", "__bound", "__servers", "__ranking")

    def __init__(self, functions, bound, servers=()):
        self.__functions = functions
        self.__bound = bound
        self.__servers = servers
        self.__ranking = None

    def __getattr__(self, name):
        if name in self.__bound:
            return self.__bound[name]
        if name == "stubs":
            return self.__stubs
        if name == "search":
            return self.__search
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(_missing(name, self.__bound), name=name, obj=self)

    def __getitem__(self, name):
        for function in self.__functions:
            if function.__name__ == name:
                return function
        if name in self.__bound:
            return self.__bound[name]
        raise KeyError(_missing(name, [function.__name__ for function in self.__functions]))

    def __contains__(self, name):
        return name in self.__bound or any(function.__name__ == name for function in self.__functions)

    def __iter__(self):
        return iter(self.__functions)

    def __len__(self):
        return len(self.__functions)

    def __dir__(self):
        return {*self.__bound, "search", "stubs"}

    def __repr__(self):
        return f"<{_count(len(self))}>"

    def __str__(self):
        elsewhere = "print(mcp) lists the tools of servers" if self.__servers and not self.__functions else ""
        return f"{self!r}\n{listing(self.__functions) or elsewhere}".rstrip("\n")

    @property
    def __doc__(self):
        return (
            f"{_count(len(self))}; help(tools.NAME) says more of one, print(tools.stubs()) of all,\n"
            f'search_tools("text") finds those that fit.\n\n{listing(self.__functions)}'
        )

    def __stubs(self, *wanted):
        """The tools as Python definitions, with types and docstrings; all, or those named."""
        functions = [self[name] if isinstance(name, str) else name for name in wanted] or self.__functions
        return "\n\n\n".join([_STUBS_HEAD, *(stub_of(function._offer) for function in functions)]) + "\n"

    def __search(self, text, limit=10):
        """The tools whose names, descriptions and parameters fit a text, best first; those of servers too."""
        if not isinstance(text, str):
            raise TypeError(f"search_tools() takes a text, not {type(text).__name__}")
        remote, problems = servers.remote_tools(self.__servers)
        functions = [*self.__functions, *remote]
        if self.__ranking is None or self.__ranking.size != len(functions):
            self.__ranking = Ranking([function._offer for function in functions])
        found = Found(functions[number] for number in self.__ranking.search(text, limit))
        found.problems = problems if functions or problems else [_count(0)]
        return found


# As programs know it.
Tools._Tools__search.__name__ = Tools._Tools__search.__qualname__ = "search_tools"


def search_of(tools):
    """`search_tools` for these tools."""
    return tools._Tools__search


class Found(list):
    """Tools that were found, best first."""

    problems = ()  # why tools of some servers could not be found

    def __repr__(self):
        lines = [listing(self) or "<no tool fits>", *map(clean, self.problems)]
        return "\n".join(lines)


def _count(number):
    if number == 0:
        return "no tools were offered"
    return "1 tool" if number == 1 else f"{number} tools"


def listing(functions):
    """A few lines for each tool."""
    lines = []
    for function in functions[:_SHOWN]:
        lines.append(f"{function.path}{function.__signature__}")
        text = first_line(function._offer)
        if text:
            lines.append(f"    {text}")
    if len(functions) > _SHOWN:
        lines.append(f'… and {len(functions) - _SHOWN} more: search_tools("text") finds them')
    return clean("\n".join(lines))


def _missing(name, known):
    known = list(known)
    shown = ", ".join(known[:_SHOWN]) + (" …" if len(known) > _SHOWN else "")
    return f"no tool {name!r} was offered; " + (f"offered: {shown}" if known else "none were")
