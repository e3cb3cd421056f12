"""An agent of pydantic-ai whose model writes programs that call the agent's tools."""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.models import Model

from agent_tools import TASK, query_database, send_email, web_search
from callgate_client.pydantic_ai import CallgateToolset


async def main(server: str | list[str], model: Model | str) -> str:
    sandbox = CallgateToolset[object](server)
    agent = Agent(model, toolsets=[sandbox], tools=[web_search, query_database, send_email])
    return (await agent.run(TASK)).output


async def hidden_from_the_model(server: str | list[str], model: Model | str) -> str:
    sandbox = CallgateToolset[object](server, tools=[web_search, query_database, send_email])
    agent = Agent(model, toolsets=[sandbox])
    return (await agent.run(TASK)).output


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[2:] or ["callgate"], sys.argv[1])))
