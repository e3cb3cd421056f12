"""Tools for a program, with `mcp` 1."""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from agent_tools import query_database, web_search
from callgate_client.mcp1 import attach, connect


async def main(server: str | list[str]) -> object:
    async with connect(server, [web_search, query_database]) as sandbox:
        run = await sandbox.run("[hit['title'] for hit in web_search(query=topic)]", topic="AI")
        return run.return_value


async def with_own_session(url: str) -> object:
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        sandbox = attach(session, [web_search, query_database])
        await session.initialize()
        run = await sandbox.run("query_database(sql='select * from customers')[0]['name']")
        return run.return_value


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1:] or ["callgate"])))
