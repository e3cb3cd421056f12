"""`MCPClient` and `Agent` of huggingface_hub, whole loops with a scripted model."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import Agent, MCPClient
from huggingface_hub.inference._mcp.types import ServerConfig

import agent_tools
import with_huggingface
from callgate_client import Tools
from callgate_client.huggingface import attach
from scripted_model import scripted_model

pytestmark = pytest.mark.anyio

DEMO = (Path(__file__).parent / "demo.py").read_text("utf-8")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    agent_tools.MAILS.clear()
    # Nothing here needs the hub; a proxy would get what is for this machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def config(server: str | list[str]) -> ServerConfig:
    if isinstance(server, str):
        return {"type": "http", "url": server, "headers": {}}
    program, *arguments = server
    return {"type": "stdio", "command": program, "args": arguments, "env": dict(os.environ), "cwd": "."}


async def test_the_demo_of_the_feature_request_runs_with_an_agent(program: str) -> None:
    with scripted_model(DEMO) as model:
        said = await with_huggingface.main(program, "scripted", model.url)
    assert "<return_value>\n2\n</return_value>" in said
    assert [mail["to"] for mail in agent_tools.MAILS] == ["ann@customers.example", "bob@customers.example"]


async def test_a_turn_of_a_client_runs_a_program(start_http: Callable[..., str]) -> None:
    with scripted_model(DEMO) as model:
        said = await with_huggingface.one_turn(start_http(), "scripted", model.url)
    assert "<return_value>\n2\n</return_value>" in said
    assert len(agent_tools.MAILS) == 2


async def test_the_model_need_not_offer_tools_and_reads_how_to_call_them(server: str | list[str]) -> None:
    with scripted_model("add(a=1)") as model:
        async with Agent(model="scripted", base_url=model.url, servers=[config(server)]) as agent:
            await agent.load_tools()
            attach(agent, [add])
            async for _ in agent.run("Add."):
                pass
    assert "<return_value>\n3\n</return_value>" in str(agent.messages[-1]["content"])
    assert list(model.tool["parameters"]["properties"]) == ["python_code"]
    assert "def add(*, a: int, b: int = 2) -> int\n    Add two numbers." in model.tool["description"]


async def test_a_model_corrects_a_program_that_failed(server: str | list[str]) -> None:
    def fail() -> None:
        raise LookupError("no such customer")

    with scripted_model("fail()", "add(a=40)") as model:
        async with Agent(model="scripted", base_url=model.url, servers=[config(server)]) as agent:
            await agent.load_tools()
            attach(agent, [add, fail])
            async for _ in agent.run("Try."):
                pass
    told = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert "Tool call 'fail' failed: no such customer" in told[0]
    assert "<return_value>\n42\n</return_value>" in str(agent.messages[-1]["content"])


async def test_calls_that_come_in_the_result_are_made_here(serve: Callable[..., str | list[str]]) -> None:
    with scripted_model("add(a=add(a=1))") as model:
        servers = [config(serve("--callbacks", "resume"))]
        async with Agent(model="scripted", base_url=model.url, servers=servers) as agent:
            await agent.load_tools()
            attach(agent, [add])
            async for _ in agent.run("Add."):
                pass
    assert "<return_value>\n5\n</return_value>" in str(agent.messages[-1]["content"])
    assert [tool["function"]["name"] for tool in model.requests[0]["tools"]].count("resume_python_code") == 0


async def test_tools_of_the_other_servers_can_be_offered(server: str | list[str]) -> None:
    other = [sys.executable, str(Path(__file__).parent / "other_server.py")]
    with scripted_model("greet(name='Ann')") as model:
        servers = [config(server), config(other)]
        async with Agent(model="scripted", base_url=model.url, servers=servers) as agent:
            await agent.load_tools()
            tools = Tools([add])
            await tools.add_session(agent.sessions["greet"])
            attach(agent, tools)
            async for _ in agent.run("Greet."):
                pass
    assert "Hello, Ann!" in str(agent.messages[-1]["content"])


async def test_a_client_without_callgate_is_told_so() -> None:
    async with MCPClient(model="scripted", base_url="http://127.0.0.1:9") as client:
        with pytest.raises(ValueError, match="add callgate with add_mcp_server or load_tools first"):
            attach(client, [add])
