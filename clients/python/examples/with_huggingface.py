"""An agent of huggingface_hub whose model writes programs that call the agent's tools."""

import asyncio
import os
import sys

from huggingface_hub import Agent, ChatCompletionInputMessage, MCPClient

from agent_tools import TASK, query_database, send_email, web_search
from callgate_client.huggingface import attach


async def main(program: str, model: str, base_url: str | None = None) -> str:
    agent = Agent(
        model=model,
        base_url=base_url,
        servers=[{"type": "stdio", "command": program, "args": [], "env": dict(os.environ), "cwd": "."}],
    )
    async with agent:
        await agent.load_tools()
        attach(agent, [web_search, query_database, send_email])
        async for _ in agent.run(TASK):
            pass
        return str(agent.messages[-1]["content"])


async def one_turn(url: str, model: str, base_url: str | None = None) -> str:
    messages: list[dict[str, str] | ChatCompletionInputMessage] = [{"role": "user", "content": TASK}]
    async with MCPClient(model=model, base_url=base_url) as client:
        await client.add_mcp_server("http", url=url)
        attach(client, [web_search, query_database, send_email])
        async for _ in client.process_single_turn_with_tools(messages):
            pass
        return str(messages[-1]["content"])


if __name__ == "__main__":
    print(asyncio.run(main("callgate", sys.argv[1])))
