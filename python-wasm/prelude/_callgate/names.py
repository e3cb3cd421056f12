"""The Python names under which offered tools are bound."""

from keyword import iskeyword
from unicodedata import normalize


def identifier(name):
    """The nearest identifier: `web-search` is `web_search`, `class` is `class_`."""
    # The compiler normalizes the names in source, so ours must be normalized as well.
    plain = name if name.isascii() else normalize("NFKC", name)
    if not plain.isidentifier():
        plain = "".join(char if ("_" + char).isidentifier() else "_" for char in plain)
    if not plain.isidentifier():
        plain = "_" + plain
    return plain + "_" if iskeyword(plain) else plain


def bind(tools):
    """Names to tools: exact names first, then the nearest ones that are still free."""
    bound = {}
    others = []
    for tool in tools:
        name = identifier(tool.__name__)
        if name == tool.__name__:
            bound.setdefault(name, tool)
        else:
            others.append((name, tool))
    for name, tool in others:
        bound.setdefault(name, tool)
    return bound
