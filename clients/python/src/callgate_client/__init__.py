"""Lets the programs that callgate runs call an agent's own tools.

`callgate_client.mcp2`, `.mcp1`, `.fastmcp`, `.pydantic_ai` and `.huggingface` are for the libraries of those
names, each of which is imported only there.
"""

from callgate_client.sandbox import CallRecord, Run, RunError, RunFailure, Sandbox
from callgate_client.tools import Tool, Tools

__all__ = ["CallRecord", "Run", "RunError", "RunFailure", "Sandbox", "Tool", "Tools"]
