//! The tools that the server offers: names, schemas, and what models read about them.

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Name of the tool that runs Python.
pub const RUN_PYTHON_CODE: &str = "run_python_code";

/// Name of the tool that continues a run with the results of its tool calls.
pub const RESUME_PYTHON_CODE: &str = "resume_python_code";

/// The capability extension of clients and servers that speak tool callbacks.
pub const CALLBACKS_EXTENSION: &str = "callgate/tool-callbacks";

const DESCRIPTION: &str = "\
Run Python code in a sandbox and get its output and the value of its last expression.

Full CPython with the standard library, numpy, pandas, scipy, scikit-learn, matplotlib and more; no \
network, no packages to install, and no files but an empty scratch folder. Each call starts afresh: \
nothing is kept from call to call. numpy's and pandas' default integer has 32 bits here: use `int64` or floats \
for numbers above two billion.

The tools in `available_tools` are functions in the code: `web_search(query=\"x\")`, or \
`call_tool(\"web_search\", query=\"x\")`. They return decoded JSON and raise `ToolCallError` when they fail. \
`await web_search.aio(query=\"x\")` with `asyncio.gather` makes calls in parallel; top-level `await` works. \
`print(tools)` lists them, `search_tools(\"text\")` finds the right one among many. \
Do many calls, loops and filters in one program, and print or return only what you need to read.";

const RESUME_DESCRIPTION: &str = "\
Continue a Python program that waits for tool calls.

When run_python_code returns the status `pending`, its program has called tools that only you can call. Call them, \
then call this with the `handle` of that result and one entry of `results` for each call. The program goes on where it \
waits; the answer is its result, or `pending` again with the next calls and a new handle.";

const INSTRUCTIONS: &str = "\
callgate runs Python that you write, and lets it call tools.
- Write one program that does the whole task: call tools in loops, filter and join the results in \
Python, and print or end with only what you need. The value of the last expression is returned.
- Offered tools are plain functions with keyword arguments that return decoded JSON: \
`rows = query_db(sql=\"select 1\")`. `help(query_db)` shows the parameters.
- A failing tool raises `ToolCallError` (`.tool_name`, `.message`): catch it where one failure must not end the rest.
- In parallel: `import asyncio; await asyncio.gather(*(fetch.aio(url=u) for u in urls))`. Threads and executors \
work, one after the other.
- With many tools: `search_tools(\"send a mail\")` finds them, `print(tools.stubs(\"send_mail\"))` shows types.
- Nothing is kept between runs. There is no network and no host file; numpy and pandas are ready at once. \
Their default integer has 32 bits here: ask for `dtype=\"int64\"` where numbers exceed two billion.
- A result with the status `pending` lists tool calls for you to make: make them with your own tools, then call \
`resume_python_code` with the handle and the results. Do not run the program again.
- After an error, read `<tool_calls>` before you run again: what was answered has happened.";

/// `inputSchema`, exactly as the wire format has it.
static INPUT: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "required": ["python_code"],
        "additionalProperties": false,
        "properties": {
            "python_code": {"type": "string", "description": "The Python source to run."},
            "available_tools": {
                "type": "array",
                "default": [],
                "description": "Tools that the code may call; you answer the calls.",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "description": {"type": "string"},
                        "parameters": {"type": "object", "description": "JSON schema of the arguments."},
                        "serverName": {"type": "string", "description": "The MCP server that has the tool, if that matters."}
                    }
                }
            },
            "global_variables": {
                "type": "object",
                "default": {},
                "description": "Names bound before the code runs."
            }
        }
    })
});

/// `inputSchema` of the tool that continues a run.
static RESUME_INPUT: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "required": ["handle", "results"],
        "additionalProperties": false,
        "properties": {
            "handle": {"type": "string", "description": "The handle of the pending result."},
            "results": {
                "type": "array",
                "description": "One entry for each call that you made.",
                "items": {
                    "type": "object",
                    "required": ["requestId"],
                    "additionalProperties": false,
                    "properties": {
                        "requestId": {"type": "string", "description": "The call, as the pending result names it."},
                        "result": {"description": "What the tool returned: any JSON value, not a string that holds JSON."},
                        "error": {"description": "What went wrong, if the call failed; instead of `result`."}
                    }
                }
            }
        }
    })
});

static OUTPUT: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "required": ["status", "output", "output_truncated", "return_value", "error", "tool_calls", "duration_ms", "cpu_ms"],
        "properties": {
            "status": {"type": "string", "enum": ["success", "run-error", "pending"]},
            "output": {"type": "string", "description": "What the code printed."},
            "output_truncated": {"type": "boolean"},
            "return_value": {"description": "The value of the last expression, as JSON."},
            "error": {
                "type": ["object", "null"],
                "required": ["kind", "message"],
                "properties": {
                    "kind": {"type": "string", "enum": KINDS},
                    "type": {"type": ["string", "null"], "description": "The exception's type."},
                    "message": {"type": "string"},
                    "traceback": {"type": ["string", "null"]}
                }
            },
            "tool_calls": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["requestId", "toolName", "outcome", "duration_ms"],
                    "properties": {
                        "requestId": {"type": "string"},
                        "toolName": {"type": "string"},
                        "serverName": {"type": ["string", "null"]},
                        "outcome": {"type": "string", "enum": ["answered", "failed", "timed_out", "withdrawn", "refused"]},
                        "duration_ms": {"type": "number"}
                    }
                }
            },
            "duration_ms": {"type": "number"},
            "cpu_ms": {"type": "number"},
            "next": {"type": "string", "description": "Of a pending run: what to do now."},
            "handle": {"type": "string", "description": "Of a pending run: what resume_python_code continues it by."},
            "expires_in_s": {"type": "number"},
            "pending": {
                "type": "array",
                "description": "The calls that a pending run waits for.",
                "items": {
                    "type": "object",
                    "required": ["requestId", "toolName", "arguments"],
                    "properties": {
                        "requestId": {"type": "string"},
                        "toolName": {"type": "string"},
                        "serverName": {"type": ["string", "null"]},
                        "arguments": {"type": "object"}
                    }
                }
            }
        }
    })
});

/// Kinds of error that a result may name (wire.md, "The result").
pub const KINDS: [&str; 11] = [
    "exception",
    "syntax",
    "precheck",
    "cpu_limit",
    "time_limit",
    "memory_limit",
    "output_limit",
    "call_limit",
    "cancelled",
    "crashed",
    "internal",
];

/// Bytes that the names of the operator's servers may take in what models read.
const NAMES: usize = 600;

/// What models are told of the operator's servers.
fn about_servers(servers: &[String]) -> String {
    if servers.is_empty() {
        return String::new();
    }
    let mut names = String::new();
    let mut shown = 0;
    for name in servers {
        if names.len() + name.len() > NAMES {
            break;
        }
        if shown > 0 {
            names.push_str(", ");
        }
        names.push_str(name);
        shown += 1;
    }
    if shown < servers.len() {
        names = format!("{names} and {} more", servers.len() - shown);
    }
    format!(
        "\n\nThe code can also call these MCP servers, with nothing in `available_tools`: {names}. \
         `search_tools(\"text\")` finds their tools, `print(mcp.NAME)` lists one server's, \
         `mcp.NAME.TOOL(arg=1)` or `call_mcp_tool(\"NAME\", \"TOOL\", arg=1)` calls one, \
         `await mcp.NAME.TOOL.aio(arg=1)` side by side."
    )
}

/// What a model is told about the server.
#[must_use]
pub fn instructions(servers: &[String]) -> String {
    format!("{INSTRUCTIONS}{}", about_servers(servers))
}

/// The tool as `tools/list` shows it, with the operator's `servers`.
#[must_use]
pub fn run_python_code(servers: &[String]) -> Tool {
    let description = format!("{DESCRIPTION}{}", about_servers(servers));
    let annotations = ToolAnnotations::with_title("Run Python code")
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    Tool::new(RUN_PYTHON_CODE, description, object(&INPUT))
        .with_title("Run Python code")
        .with_raw_output_schema(object(&OUTPUT))
        .with_annotations(annotations)
}

/// The tool as `tools/list` shows it.
#[must_use]
pub fn resume_python_code() -> Tool {
    let annotations = ToolAnnotations::with_title("Resume Python code")
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    Tool::new(
        RESUME_PYTHON_CODE,
        RESUME_DESCRIPTION,
        object(&RESUME_INPUT),
    )
    .with_title("Resume Python code")
    .with_raw_output_schema(object(&OUTPUT))
    .with_annotations(annotations)
}

/// What is wrong with the arguments of `run_python_code`, if anything is.
///
/// # Errors
/// Every violation, with the place.
pub fn check_run(arguments: &Value) -> Result<(), String> {
    static VALIDATOR: LazyLock<Option<Validator>> =
        LazyLock::new(|| jsonschema::validator_for(&INPUT).ok());
    let takes = "`python_code` (a string) and optionally `available_tools` (a list of objects with `name`, \
                 `description`, `parameters`) and `global_variables` (an object)";
    check(VALIDATOR.as_ref(), arguments, RUN_PYTHON_CODE, takes)
}

/// What is wrong with the arguments of `resume_python_code`, if anything is.
///
/// # Errors
/// Every violation, with the place.
pub fn check_resumption(arguments: &Value) -> Result<(), String> {
    static VALIDATOR: LazyLock<Option<Validator>> =
        LazyLock::new(|| jsonschema::validator_for(&RESUME_INPUT).ok());
    let takes = "`handle` (a string) and `results` (a list of objects with `requestId` and `result` or `error`)";
    check(VALIDATOR.as_ref(), arguments, RESUME_PYTHON_CODE, takes)
}

fn check(
    validator: Option<&Validator>,
    arguments: &Value,
    tool: &str,
    takes: &str,
) -> Result<(), String> {
    let Some(validator) = validator else {
        return Ok(());
    };
    let errors: Vec<String> = validator
        .iter_errors(arguments)
        .take(5)
        .map(|error| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() {
                String::new()
            } else {
                format!("{path}: ")
            };
            let text = error.to_string();
            // The message quotes the value, which may be megabytes of source.
            let text = if text.len() > 300 {
                format!("{:?} is wrong here", error.kind())
            } else {
                text
            };
            format!("{place}{}", text.chars().take(300).collect::<String>())
        })
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("{}. {tool} takes {takes}", errors.join("; ")))
}

fn object(value: &Value) -> Arc<JsonObject> {
    Arc::new(value.as_object().cloned().unwrap_or_default())
}
