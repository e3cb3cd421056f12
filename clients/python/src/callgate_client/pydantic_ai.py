"""Tool calls for agents of pydantic-ai."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from copy import copy
from functools import partial
from typing import Any

from pydantic_core import SchemaValidator, core_schema
from typing_extensions import Self

from callgate_client.calls import PARALLEL
from callgate_client.connections import Connections
from callgate_client.described import CODE_ONLY, describe
from callgate_client.fastmcp import connect
from callgate_client.messages import RUN_PYTHON_CODE
from callgate_client.needing import needing
from callgate_client.sandbox import RunError
from callgate_client.server import Server
from callgate_client.tools import Tool, Tools

with needing("pydantic-ai"):
    from fastmcp.client.transports import ClientTransport
    from pydantic_ai import (
        AbstractToolset,
        ApprovalRequired,
        CallDeferred,
        CombinedToolset,
        FunctionToolset,
        RunContext,
        ToolCallPart,
        ToolDefinition,
        ToolDenied,
        ToolFailed,
        ToolReturn,
        ToolsetTool,
        WrapperToolset,
    )
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.tools import AgentDepsT, ToolFuncEither
    from pydantic_ai.tools import Tool as AgentTool

CODE_VALIDATOR = SchemaValidator(
    core_schema.typed_dict_schema(
        {"python_code": core_schema.typed_dict_field(core_schema.str_schema())}, extra_behavior="forbid"
    )
)

OTHERS = "your other tools, by their names: functions whose arguments are all keywords."
"""What is offered where the model knows it already."""


class CallgateToolset(WrapperToolset[AgentDepsT]):
    """Gives an agent `run_python_code`, and the programs that its model writes the agent's tools.

    With `tools` and `toolsets`, programs may call those, and the model sees nothing of them but their
    signatures in the description of `run_python_code`. Without, programs may call whatever else the agent
    has, which the model may call itself as well.

    `server` is a URL, a command as a list, or a function that makes a FastMCP transport.
    """

    def __init__(
        self,
        server: Server | Callable[[], ClientTransport],
        *,
        tools: Sequence[AgentTool[AgentDepsT] | ToolFuncEither[AgentDepsT, ...]] = (),
        toolsets: Iterable[AbstractToolset[AgentDepsT]] = (),
        id: str | None = None,  # noqa: A002
        parallel: int = PARALLEL,
    ) -> None:
        offered = [*toolsets]
        if tools:
            offered.insert(0, FunctionToolset(tools))
        super().__init__(CombinedToolset(offered))
        self._offers_others = not offered
        self._id = id
        self._description: str | None = None
        self._connections = Connections(
            # Each connection needs a transport of its own.
            lambda: connect(server() if callable(server) else server, parallel=parallel)
        )

    @property
    def id(self) -> str | None:
        """What tells it from the agent's other toolsets."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Make the toolset of a run: it may offer other tools than those of other runs."""
        return self._offering(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Make the toolset of a step."""
        return self._offering(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(
        self, visitor: Callable[[AbstractToolset[AgentDepsT]], AbstractToolset[AgentDepsT]]
    ) -> AbstractToolset[AgentDepsT]:
        """Let a visitor change what is offered."""
        return self._offering(self.wrapped.visit_and_replace(visitor))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        await self._connections.__aexit__(*args)
        return await super().__aexit__(*args)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """List `run_python_code`."""
        if self._description is None:
            async with self._connections.lease() as sandbox:
                self._description = await sandbox.description()
        offered = OTHERS
        if not self._offers_others:
            offered = self._tools(await self._manager(ctx), copy_context()).stubs()
        definition = ToolDefinition(
            name=RUN_PYTHON_CODE,
            description=describe(self._description, offered),
            parameters_json_schema=CODE_ONLY,
        )
        tool = ToolsetTool(
            toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=CODE_VALIDATOR
        )
        return {RUN_PYTHON_CODE: tool}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        """Run a program. One that fails is no reason to end the run: the model reads why."""
        tools = self._tools(await self._manager(ctx), copy_context(), without=ctx.tool_name)
        async with self._connections.lease() as sandbox:
            sandbox.tools = tools
            try:
                run = await sandbox.run(tool_args["python_code"])
            except RunError as error:
                run = error.run
        if not run.succeeded:
            raise ToolFailed(run.text)
        return ToolReturn(run.text, metadata=run.model_dump(mode="json"))

    def _offering(self, wrapped: AbstractToolset[AgentDepsT]) -> Self:
        if wrapped is self.wrapped:
            return self
        other = copy(self)
        other.wrapped = wrapped
        return other

    async def _manager(self, ctx: RunContext[AgentDepsT]) -> ToolManager[AgentDepsT]:
        """Return what calls tools as the agent would, hooks and checks included."""
        if not self._offers_others:
            return ToolManager(
                toolset=self.wrapped,
                root_capability=ctx.root_capability,
                ctx=ctx,
                tools=await self.wrapped.get_tools(ctx),
                default_max_retries=ctx.max_retries,
            )
        if ctx.tool_manager is None:
            raise RuntimeError("this agent does not tell its tools; pass them as `tools` or `toolsets`")
        return ctx.tool_manager

    def _tools(self, manager: ToolManager[AgentDepsT], context: Context, without: str | None = None) -> Tools:
        return Tools(
            Tool(
                name=offered.name,
                # Calls arrive in tasks of the connection: spans and the like want to be in the run's.
                call=partial(_in_context, context, partial(_call, manager, offered.name)),
                description=offered.description or "",
                parameters=offered.parameters_json_schema,
                returns=offered.return_schema,
            )
            for offered in manager.tool_defs
            if offered.name != without and offered.kind != "output"
        )


async def _in_context(
    context: Context, call: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]
) -> object:
    return await asyncio.create_task(call(arguments), context=context.copy())


async def _call(manager: ToolManager[Any], name: str, arguments: dict[str, Any]) -> object:
    call = ToolCallPart(tool_name=name, args=arguments)
    try:
        # What goes wrong is for the program; the model's retries have nothing to do with it.
        result = await manager.handle_call(call, wrap_validation_errors=False)
    except (ApprovalRequired, CallDeferred) as error:
        raise RuntimeError(
            "it has to be approved or answered outside, and programs can't wait for that"
        ) from error
    if isinstance(result, ToolDenied):
        raise PermissionError(result.message)
    return result.return_value if isinstance(result, ToolReturn) else result
