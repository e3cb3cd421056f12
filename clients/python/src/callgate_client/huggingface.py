"""Tool calls for `MCPClient` and `Agent` of huggingface_hub."""

from typing import Any

from callgate_client import mcp1
from callgate_client.calls import PARALLEL
from callgate_client.described import CODE_ONLY, describe
from callgate_client.messages import RESUME_PYTHON_CODE, RUN_PYTHON_CODE
from callgate_client.needing import needing
from callgate_client.sandbox import Sandbox
from callgate_client.tools import Tools, ToolsLike

with needing("huggingface"):
    from huggingface_hub import ChatCompletionInputTool, MCPClient


def attach(client: MCPClient, tools: ToolsLike = (), *, parallel: int = PARALLEL) -> Sandbox:
    """Offer tools to the programs that the model writes, and answer their calls.

    Once the client has its servers: after `add_mcp_server`, or `load_tools` of an agent.
    """
    session = client.sessions.get(RUN_PYTHON_CODE)
    if session is None:
        raise ValueError(
            f"no server with {RUN_PYTHON_CODE}; add callgate with add_mcp_server or load_tools first"
        )
    sandbox = mcp1.attach(session, tools, parallel=parallel)
    offering: Any = _Offering(sandbox)
    client.sessions[RUN_PYTHON_CODE] = offering
    client.available_tools = [
        _described(tool, sandbox.tools) if tool.function.name == RUN_PYTHON_CODE else tool
        for tool in client.available_tools
        if tool.function.name != RESUME_PYTHON_CODE  # that is done here
    ]
    return sandbox


def _described(tool: ChatCompletionInputTool, tools: Tools) -> ChatCompletionInputTool:
    """Make the tool anew: to change one here is to change only half of what is sent."""
    description = describe(tool.function.description or "", tools.stubs())
    function = {"name": RUN_PYTHON_CODE, "description": description, "parameters": CODE_ONLY}
    return ChatCompletionInputTool.parse_obj_as_instance({"type": "function", "function": function})


class _Offering:
    """Stands for the session in the model's calls of `run_python_code`: it adds the tools."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def call_tool(self, _: str, arguments: dict[str, Any]) -> Any:
        return await self._sandbox.call(
            {**arguments, "available_tools": self._sandbox.tools.available_tools()}
        )
