"""`tools` and `search_tools`: how the program finds out what was offered."""

from _callgate import names
from _callgate.ranking import Ranking
from _callgate.signatures import first_line, stub_of
from _callgate.texts import clean

_SHOWN = 100
_STUBS_HEAD = "from typing import Any, Literal, NotRequired, TypedDict"


class Tools:
    """The offered tools: `tools.web_search(...)`, `tools["web-search"]`, `dir(tools)`."""

    def __init__(self, functions, bound):
        self._functions = functions
        self._bound = bound
        self._ranking = None

    def find(self, name):
        """The tool under a Python name, or None."""
        return self._bound.get(name)

    def stubs(self, *wanted):
        """The tools as Python definitions, with types and docstrings; all, or those named."""
        functions = [self[name] if isinstance(name, str) else name for name in wanted] or self._functions
        return "\n\n\n".join([_STUBS_HEAD, *(stub_of(function._offer) for function in functions)]) + "\n"

    def search(self, text, limit=10):
        """The tools whose names, descriptions and parameters fit a text, best first."""
        if not isinstance(text, str):
            raise TypeError(f"search_tools() takes a text, not {type(text).__name__}")
        if self._ranking is None:
            self._ranking = Ranking([function._offer for function in self._functions])
        return Found(self._functions[number] for number in self._ranking.search(text, limit))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._bound[name]
        except KeyError:
            raise AttributeError(_missing(name, self._bound), name=name, obj=self) from None

    def __getitem__(self, name):
        for function in self._functions:
            if function.__name__ == name:
                return function
        if name in self._bound:
            return self._bound[name]
        raise KeyError(_missing(name, [function.__name__ for function in self._functions]))

    def __contains__(self, name):
        return name in self._bound or any(function.__name__ == name for function in self._functions)

    def __iter__(self):
        return iter(self._functions)

    def __len__(self):
        return len(self._functions)

    def __dir__(self):
        return [*self._bound, "search", "stubs"]

    def __repr__(self):
        return f"<{_count(len(self))}>\n{_listing(self._functions)}".rstrip("\n")

    @property
    def __doc__(self):
        return (
            f"{_count(len(self))}; help(tools.NAME) says more of one, print(tools.stubs()) of all,\n"
            f'search_tools("text") finds those that fit.\n\n{_listing(self._functions)}'
        )


class Found(list):
    """Tools that were found, best first."""

    def __repr__(self):
        return _listing(self) or "<no tool fits>"


def _count(number):
    return "1 tool" if number == 1 else f"{number} tools"


def _listing(functions):
    lines = []
    for function in functions[:_SHOWN]:
        lines.append(f"{names.identifier(function.__name__)}{function.__signature__}")
        text = first_line(function._offer)
        if text:
            lines.append(f"    {text}")
    if len(functions) > _SHOWN:
        lines.append(f'… and {len(functions) - _SHOWN} more: search_tools("text") finds them')
    return clean("\n".join(lines))


def _missing(name, known):
    known = list(known)
    shown = ", ".join(known[:_SHOWN]) + (" …" if len(known) > _SHOWN else "")
    return f"no tool {name!r} was offered; offered: {shown}"
