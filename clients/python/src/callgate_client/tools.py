"""The tools that programs in the sandbox may call."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from anyio import CapacityLimiter, to_thread

from callgate_client.parameters import JsonSchema, Parameters
from callgate_client.sessions import Session, SessionOwner, list_tools
from callgate_client.stubs import stub


@dataclass(frozen=True)
class Tool:
    """A tool: what programs and models are told of it, and what answers its calls."""

    name: str
    call: Callable[[dict[str, Any]], Awaitable[object]]
    """Takes the arguments by name."""
    description: str = ""
    parameters: JsonSchema | None = None
    """JSON schema of the arguments. Without one a program may pass anything."""
    returns: JsonSchema | None = None
    """JSON schema of the result, for models that write programs."""
    server_name: str | None = None
    """Programs may also say `call_mcp_tool(server_name, name, …)`."""

    @classmethod
    def from_function(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: JsonSchema | None = None,
    ) -> "Tool":
        """Make a tool of a function, a method or any other callable, asynchronous or not.

        The schema is made from the signature, and arguments are checked by it and converted to what the
        annotations say. With `parameters` the function gets the arguments as they came.
        """
        name = name or _name_of(function)
        if description is None:
            description = inspect.getdoc(function) or ""
        if parameters is not None:
            return cls(name, partial(_call_by_name, function), description, parameters)
        signature = Parameters(function, name)
        call = partial(_call_checked, function, signature)
        return cls(name, call, description, signature.schema, signature.returns)

    def offer(self) -> dict[str, Any]:
        """Describe the tool as `available_tools` wants it."""
        offer: dict[str, Any] = {"name": self.name}
        if self.description:
            offer["description"] = self.description
        if self.parameters is not None:
            offer["parameters"] = self.parameters
        if self.server_name is not None:
            offer["serverName"] = self.server_name
        return offer


class Tools(Mapping[str, Tool]):
    """Tools by their names."""

    def __init__(self, tools: "Iterable[Tool | Callable[..., object]]" = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    @classmethod
    def of(cls, tools: "ToolsLike") -> "Tools":
        """Return the tools themselves, or make them of functions."""
        return tools if isinstance(tools, Tools) else cls(tools)

    def add(
        self,
        tool: Tool | Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: JsonSchema | None = None,
    ) -> None:
        """Add a tool, or a function as one; see `Tool.from_function`."""
        if not isinstance(tool, Tool):
            tool = Tool.from_function(tool, name=name, description=description, parameters=parameters)
        if tool.name in self._tools:
            raise ValueError(f"there are two tools of the name {tool.name!r}; give one of them another name")
        self._tools[tool.name] = tool

    async def add_session(
        self, session: Session | SessionOwner, *, prefix: str = "", server_name: str | None = None
    ) -> None:
        """Add every tool of another MCP server.

        Takes a session or a client of `mcp` 1, `mcp` 2 or FastMCP that is connected. Names get `prefix`.
        """
        source = session.session if isinstance(session, SessionOwner) else session
        for listed in await list_tools(source):
            self.add(
                Tool(
                    name=prefix + listed.name,
                    call=partial(source.call_tool, listed.name),
                    description=listed.description or "",
                    parameters=listed.parameters,
                    returns=listed.returns,
                    server_name=server_name,
                )
            )

    def available_tools(self) -> list[dict[str, Any]]:
        """Make the argument `available_tools` of `run_python_code`."""
        return [tool.offer() for tool in self.values()]

    def stubs(self) -> str:
        """Show the tools as Python functions, for a model that writes programs."""
        return "\n\n".join(
            stub(tool.name, tool.description, tool.parameters, tool.returns) for tool in self.values()
        )

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


ToolsLike: TypeAlias = Tools | Iterable[Tool | Callable[..., object]]
"""Tools, or functions that are to be tools."""


def _name_of(function: Callable[..., object]) -> str:
    name = getattr(getattr(function, "func", function), "__name__", None)
    if name is None or name == "<lambda>":
        raise ValueError(f"{function!r} has no name; say Tool.from_function(…, name=…)")
    return str(name)


async def _call_checked(
    function: Callable[..., object], parameters: Parameters, arguments: dict[str, Any]
) -> object:
    bound = parameters.bind(arguments)
    return await _call(partial(function, *bound.args, **bound.kwargs))


async def _call_by_name(function: Callable[..., object], arguments: dict[str, Any]) -> object:
    return await _call(partial(function, **arguments))


async def _call(function: "partial[object]") -> object:
    if inspect.iscoroutinefunction(function.func) or inspect.iscoroutinefunction(
        getattr(function.func, "__call__", None)  # noqa: B004
    ):
        result = function()
    else:
        # In a thread, so that one that blocks does not stop the others. How many there are is the caller's
        # to say, hence a limiter that never makes this wait.
        result = await to_thread.run_sync(function, abandon_on_cancel=True, limiter=CapacityLimiter(1))
    return await result if inspect.isawaitable(result) else result
