"""The functions through which user code calls tools."""

from _callgate import loop, signatures, values
from _callgate.errors import ToolCallError
from _callgate.host import call
from _callgate.names import identifier

_limits = {"arguments_bytes": 1 << 20}


def set_limits(limits):
    """Take this run's limits."""
    _limits.update(limits)


def call_tool(name, arguments=None, /, **named):
    """Call a tool and wait for its result: call_tool("web_search", query="x").

    The arguments may also be one dict. Raises ToolCallError when the call fails.
    """
    return _call(_tool_name(name), None, _merge("call_tool", arguments, named))


async def call_tool_async(name, arguments=None, /, **named):
    """The awaitable twin of call_tool: with asyncio.gather, calls run in parallel."""
    return await _call_async(_tool_name(name), None, _merge("call_tool_async", arguments, named))


def call_mcp_tool(server, tool, arguments=None, /, **named):
    """Call a tool of a named MCP server: call_mcp_tool("github", "search_issues", query="x")."""
    if not isinstance(server, str):
        raise TypeError(f"a server's name is a str, not {type(server).__name__}")
    return _call(_tool_name(tool), server, _merge("call_mcp_tool", arguments, named))


class ToolFunction:
    """An offered tool: call it, or await its `aio`.

    Signature and docstring are made when somebody asks: most runs only call.
    """

    def __init__(self, offer, server=None):
        self.__name__ = self.__qualname__ = offer["name"]
        self.__module__ = "__main__"
        self._offer = offer
        self._server = server  # where the tool is called by its server's name

    def __call__(self, /, *positional, **named):
        return _call(self.__name__, self._server, self._bind(positional, named))

    async def aio(self, /, *positional, **named):
        """The awaitable twin of the tool."""
        return await _call_async(self.__name__, self._server, self._bind(positional, named))

    @property
    def path(self):
        """As it is written in code."""
        name = identifier(self.__name__)
        return f"mcp.{identifier(self._server)}.{name}" if self._server else name

    def parameter_names(self):
        """The names of its arguments, in the order in which they may be given by position."""
        return list(signatures.properties_of(self._offer.get("parameters")))

    @property
    def __signature__(self):
        return signatures.signature_of(self._offer)

    @property
    def __annotations__(self):
        return {
            name: parameter.annotation
            for name, parameter in self.__signature__.parameters.items()
            if parameter.annotation is not parameter.empty
        }

    @property
    def __doc__(self):
        # Without a text, `help` would describe the class.
        return signatures.docstring_of(self._offer) or "No description was given."

    def __repr__(self):
        line = signatures.first_line(self._offer)
        return f"<tool {self.path}{self.__signature__}{f': {line}' if line else ''}>"

    def _bind(self, positional, named):
        """Give positional arguments the names of the schema's properties, in their order."""
        if not positional:
            return named
        names = self.parameter_names()
        if not names:
            raise TypeError(f"{self.__name__}() takes its arguments by keyword only")
        if len(positional) > len(names):
            raise TypeError(_too_many(self.__name__, len(names), len(positional)))
        arguments = dict(zip(names, positional))
        for name in named:
            if name in arguments:
                raise TypeError(f"{self.__name__}() got multiple values for argument {name!r}")
        return {**arguments, **named}


def _too_many(name, takes, given):
    plural = "" if takes == 1 else "s"
    were = "was" if given == 1 else "were"
    return f"{name}() takes {takes} positional argument{plural} but {given} {were} given"


def _tool_name(tool):
    """A tool's name; the function of a tool will do as well."""
    if isinstance(tool, str):
        return tool
    if isinstance(tool, ToolFunction):
        return tool.__name__
    raise TypeError(f"a tool's name is a str, not {type(tool).__name__}")


def _merge(function, arguments, named):
    """One dict of the arguments that came as a dict and those that came by keyword."""
    if arguments is None:
        return named
    if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
        raise TypeError(f"{function}() takes the tool's arguments by keyword, or as one dict")
    for name in named:
        if name in arguments:
            raise TypeError(f"{function}() got multiple values for argument {name!r}")
    return {**arguments, **named}


def _call(tool, server, arguments):
    return call(tool, server, _encode(tool, arguments))


async def _call_async(tool, server, arguments):
    return await loop.call(tool, server, _encode(tool, arguments))


def _encode(tool, arguments):
    return values.encode_arguments(tool, arguments, _limits["arguments_bytes"])


# What user code finds without importing anything.
OWN_NAMES = {
    "call_tool": call_tool,
    "call_tool_async": call_tool_async,
    "call_mcp_tool": call_mcp_tool,
    "ToolCallError": ToolCallError,
}
