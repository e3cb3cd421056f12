"""An MCP server with tools of its own, over stdio, in either generation of `mcp`."""

try:
    from mcp.server import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("other")


@server.tool()
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


@server.tool()
def measure(text: str) -> dict[str, int | None]:
    """Count."""
    return {"letters": len(text), "pages": None}


@server.tool()
def break_down() -> str:
    """Always fails."""
    raise RuntimeError("out of order")


server.run()
