"""Tools of other MCP servers."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from callgate_client.parameters import JsonSchema


class Session(Protocol):
    """What is needed of a `ClientSession`, of `mcp` 1 or 2."""

    async def list_tools(self, *, params: Any) -> Any:
        """Ask for a page of tools."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool."""


@runtime_checkable
class SessionOwner(Protocol):
    """A client, of `mcp` 2 or FastMCP."""

    @property
    def session(self) -> Any:
        """The session under it."""


@dataclass(frozen=True)
class ListedTool:
    """A tool, as its server describes it."""

    name: str
    description: str | None
    parameters: JsonSchema
    returns: JsonSchema | None


async def list_tools(session: Session) -> list[ListedTool]:
    """Ask for all tools, page by page."""
    from mcp.types import PaginatedRequestParams

    tools: list[ListedTool] = []
    params: PaginatedRequestParams | None = None
    while True:
        # By the names on the wire: those in Python differ between `mcp` 1 and 2.
        page = (await session.list_tools(params=params)).model_dump(by_alias=True, mode="json")
        for tool in page["tools"]:
            listed = ListedTool(tool["name"], tool["description"], tool["inputSchema"], tool["outputSchema"])
            tools.append(listed)
        if not page["nextCursor"]:
            return tools
        params = PaginatedRequestParams(cursor=page["nextCursor"])
