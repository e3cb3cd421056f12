//! The arguments of the server's tools.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{answers::Answer, schema};
use crate::gate::{OfferedTools, Program};

/// Reads the arguments of `run_python_code`.
///
/// # Errors
/// What is wrong with them, and what would be right.
pub fn program(arguments: Map<String, Value>) -> Result<Program, String> {
    let arguments = Value::Object(arguments);
    schema::check_run(&arguments)?;
    let Value::Object(mut arguments) = arguments else {
        return Err("the arguments are not an object".to_owned());
    };
    let Some(Value::String(source)) = arguments.remove("python_code") else {
        return Err("`python_code` must be a string".to_owned());
    };
    let mut tools = match arguments.remove("available_tools") {
        Some(Value::Array(tools)) => tools,
        _ => Vec::new(),
    };
    tools.iter_mut().for_each(take_input_schema);
    let global_variables = match arguments.remove("global_variables") {
        Some(Value::Object(variables)) => variables,
        _ => Map::new(),
    };
    let offered = OfferedTools::parse(&tools).map_err(|error| error.to_string())?;
    Ok(Program {
        source,
        tools,
        offered,
        global_variables,
    })
}

/// Reads the arguments of `resume_python_code`: the handle, and the results.
///
/// # Errors
/// What is wrong with them, and what would be right.
pub fn resumption(arguments: Map<String, Value>) -> Result<(String, Vec<Answer>), String> {
    let arguments = Value::Object(arguments);
    schema::check_resumption(&arguments)?;
    let Value::Object(mut arguments) = arguments else {
        return Err("the arguments are not an object".to_owned());
    };
    let Some(Value::String(handle)) = arguments.remove("handle") else {
        return Err("`handle` must be a string".to_owned());
    };
    let results = arguments.remove("results").unwrap_or_default();
    let answers = Vec::<Answer>::deserialize(results);
    let answers = answers.map_err(|error| format!("`results`: {error}"))?;
    Ok((handle, answers))
}

/// An MCP tool may be offered as `tools/list` has it.
fn take_input_schema(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    if tool.get("parameters").is_none_or(Value::is_null)
        && let Some(schema) = tool.remove("inputSchema")
    {
        tool.insert("parameters".to_owned(), schema);
    }
}
