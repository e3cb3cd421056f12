"""Tools for a program, with `mcp` 2."""

import asyncio
import sys

from mcp.client import Client

from agent_tools import query_database, web_search
from callgate_client.mcp2 import ToolCallbacks, connect


async def main(server: str | list[str]) -> object:
    async with connect(server, [web_search, query_database]) as sandbox:
        run = await sandbox.run("[hit['title'] for hit in web_search(query=topic)]", topic="AI")
        return run.return_value


async def with_own_client(url: str) -> object:
    callbacks = ToolCallbacks([web_search, query_database])
    async with Client(url, extensions=[callbacks]) as client:
        run = await callbacks.attach(client).run("query_database(sql='select * from customers')[0]['name']")
        return run.return_value


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1:] or ["callgate"])))
