// An agent on the npm package `@modelcontextprotocol/sdk` 1, whose model has written a program.
//
//     node sdk_1.ts                    starts callgate (or what CALLGATE_BIN names)
//     node sdk_1.ts -- COMMAND ARGS…   starts that
//     node sdk_1.ts --http URL         uses a callgate that runs

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

import { callbacks, program, readArguments, type Callgate } from "./agent.ts";
import { ToolCall, ToolCallCancelled } from "./tool_callbacks.ts";

// This library chooses the handler of a notification by the schema of all of it.
const ToolCallNotification = z.object({
  method: z.literal("notifications/tool_call_request"),
  params: ToolCall,
});
const ToolCallCancelledNotification = z.object({
  method: z.literal("notifications/tool_call_cancelled"),
  params: ToolCallCancelled,
});

const client = new Client({ name: "sdk_1", version: "1.0.0" });

client.setNotificationHandler(ToolCallNotification, async ({ params }) => {
  const answer = await callbacks.answer(params);
  if (answer) await client.notification({ method: "notifications/tool_call_response", params: answer });
});
client.setNotificationHandler(ToolCallCancelledNotification, ({ params }) => callbacks.cancel(params));

await client.connect(transport(readArguments()));
const result = await client.callTool(
  { name: "run_python_code", arguments: { python_code: program, available_tools: callbacks.offered } },
  CallToolResultSchema,
  // The first run of all builds the runtime, and programs may take their time: a minute is too little.
  { timeout: 10 * 60_000 },
);
for (const block of CallToolResultSchema.parse(result).content) {
  if (block.type === "text") console.log(block.text);
}
await client.close();
process.exitCode = result.isError ? 1 : 0;

function transport(callgate: Callgate) {
  if ("url" in callgate) return new StreamableHTTPClientTransport(callgate.url);
  // By itself the library hands only a few variables on, and callgate can be set up by its own.
  return new StdioClientTransport({ ...callgate, env: process.env as Record<string, string> });
}
