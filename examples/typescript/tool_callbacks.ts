// Answers the tool calls of callgate's programs. It knows no MCP library, because each has its own way
// to hand over a notification: sdk_1.ts and client_2.ts show them.

import { z } from "zod";

/** What the server asks, `params` of `notifications/tool_call_request`. */
export const ToolCall = z.object({
  requestId: z.string(),
  toolName: z.string(),
  arguments: z.record(z.string(), z.unknown()),
});

/** What the server says when nobody waits any more, `params` of `notifications/tool_call_cancelled`. */
export const ToolCallCancelled = z.object({ requestId: z.string(), reason: z.string().optional() });

/** What it is answered, `params` of `notifications/tool_call_response`. */
export type ToolCallResponse = { requestId: string; result: unknown } | { requestId: string; error: string };

/** A tool as `available_tools` has it. */
type OfferedTool = { name: string; description: string; parameters: object };

export interface Tool {
  offered: OfferedTool;
  call(input: unknown, signal: AbortSignal): Promise<unknown>;
}

/** Makes a tool. The model reads the schema, the function gets what it describes. */
export function tool<Schema extends z.ZodObject>(
  name: string,
  description: string,
  schema: Schema,
  run: (input: z.output<Schema>, signal: AbortSignal) => unknown,
): Tool {
  return {
    offered: { name, description, parameters: z.toJSONSchema(schema, { io: "input" }) },
    call: async (input, signal) => run(schema.parse(input), signal),
  };
}

export class ToolCallbacks {
  readonly #tools: Map<string, Tool>;
  readonly #underway = new Map<string, AbortController>();

  constructor(tools: Tool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.offered.name, tool]));
  }

  /** For `available_tools` of `run_python_code`. */
  get offered(): OfferedTool[] {
    return [...this.#tools.values()].map((tool) => tool.offered);
  }

  /** Does what is asked. There is no answer when the call was cancelled meanwhile. */
  async answer(call: z.output<typeof ToolCall>): Promise<ToolCallResponse | undefined> {
    const { requestId, toolName } = call;
    const cancelled = new AbortController();
    this.#underway.set(requestId, cancelled);
    try {
      const result = await this.#tool(toolName).call(call.arguments, cancelled.signal);
      // JSON has no `undefined`: a tool that returns nothing returns `None` to Python.
      return cancelled.signal.aborted ? undefined : { requestId, result: result ?? null };
    } catch (error) {
      return cancelled.signal.aborted ? undefined : { requestId, error: message(error) };
    } finally {
      this.#underway.delete(requestId);
    }
  }

  /** Tells the tool, by its signal, that nobody waits for it any more. */
  cancel({ requestId, reason }: z.output<typeof ToolCallCancelled>): void {
    this.#underway.get(requestId)?.abort(new Error(reason ?? "cancelled"));
  }

  #tool(name: string): Tool {
    const tool = this.#tools.get(name);
    if (!tool) throw new Error(`there is no tool '${name}'`);
    return tool;
  }
}

function message(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error);
  return error instanceof Error ? error.message : String(error);
}
