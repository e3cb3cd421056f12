// An agent on the npm package `@modelcontextprotocol/client` 2, whose model has written a program.
//
//     node client_2.ts                    starts callgate (or what CALLGATE_BIN names)
//     node client_2.ts -- COMMAND ARGS…   starts that
//     node client_2.ts --http URL         uses a callgate that runs

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { callbacks, program, readArguments, type Callgate } from "./agent.ts";
import { ToolCall, ToolCallCancelled } from "./tool_callbacks.ts";

const client = new Client(
  { name: "client_2", version: "1.0.0" },
  {
    // The newest revision that both sides speak; without this it is one of 2025.
    versionNegotiation: { mode: "auto" },
    // From 2026-07-28 on, callgate asks only clients that say that they answer.
    capabilities: { extensions: { "callgate/tool-callbacks": {} } },
  },
);

// This library chooses the handler by the method, and checks `params` with the schema.
client.setNotificationHandler("notifications/tool_call_request", { params: ToolCall }, async (call) => {
  const answer = await callbacks.answer(call);
  if (answer) await client.notification({ method: "notifications/tool_call_response", params: answer });
});
client.setNotificationHandler("notifications/tool_call_cancelled", { params: ToolCallCancelled }, (cancelled) =>
  callbacks.cancel(cancelled),
);

await client.connect(transport(readArguments()));
console.log(`MCP ${client.getNegotiatedProtocolVersion()}`);
const result = await client.callTool(
  { name: "run_python_code", arguments: { python_code: program, available_tools: callbacks.offered } },
  // The first run of all builds the runtime, and programs may take their time: a minute is too little.
  { timeout: 10 * 60_000 },
);
for (const block of result.content) {
  if (block.type === "text") console.log(block.text);
}
await client.close();
process.exitCode = result.isError ? 1 : 0;

function transport(callgate: Callgate) {
  if ("url" in callgate) return new StreamableHTTPClientTransport(callgate.url);
  // By itself the library hands only a few variables on, and callgate can be set up by its own.
  return new StdioClientTransport({ ...callgate, env: process.env as Record<string, string> });
}
