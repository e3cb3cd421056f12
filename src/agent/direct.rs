//! Direct mode: each tool of each server is a tool of the model.

use std::collections::HashMap;

use serde_json::Value;

use super::{model::ToolDefinition, toolbox::ServerTool};

/// The longest name that models' servers take.
pub(super) const LONGEST_NAME: usize = 64;

/// The tools under the names that the model knows them by.
#[derive(Debug, Default)]
pub(super) struct DirectTools {
    tools: HashMap<String, ServerTool>,
    /// In the order of the servers.
    names: Vec<String>,
}

impl DirectTools {
    /// A tool keeps its name if it can; where two servers have one, the later has its server's name in front.
    pub(super) fn new(tools: Vec<ServerTool>, taken: &[&str]) -> Self {
        let mut direct = Self::default();
        for tool in tools {
            let plain = fitting(&tool.tool.name);
            let with_server = fitting(&format!("{}_{}", tool.server, tool.tool.name));
            let numbered = (2..1000).map(|number| {
                let number = format!("_{number}");
                let mut name = with_server.clone();
                name.truncate(LONGEST_NAME - number.len());
                name + &number
            });
            let mut names = [plain, with_server.clone()].into_iter().chain(numbered);
            let is_free =
                |name: &String| !taken.contains(&name.as_str()) && !direct.tools.contains_key(name);
            let Some(name) = names.find(is_free) else {
                continue;
            };
            direct.tools.insert(name.clone(), tool);
            direct.names.push(name);
        }
        direct
    }

    /// The tool of that name.
    pub(super) fn get(&self, name: &str) -> Option<&ServerTool> {
        self.tools.get(name)
    }

    /// Their names.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// As the model sees them.
    pub(super) fn definitions(&self) -> Vec<ToolDefinition> {
        let tools = self
            .names
            .iter()
            .filter_map(|name| Some((name, self.tools.get(name)?)));
        let definition = |(name, tool): (&String, &ServerTool)| ToolDefinition {
            name: name.clone(),
            description: tool
                .tool
                .description
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
            parameters: Value::Object((*tool.tool.input_schema).clone()),
        };
        tools.map(definition).collect()
    }
}

/// The name with only what models' servers take in names.
fn fitting(name: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let characters = name.chars().take(LONGEST_NAME);
    let name: String = characters
        .map(|character| if fits(character) { character } else { '_' })
        .collect();
    if name.is_empty() {
        "tool".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::Tool;

    use super::{DirectTools, ServerTool};

    fn tool(server: &str, name: &str) -> ServerTool {
        ServerTool {
            server: server.to_owned(),
            tool: Tool::new(name.to_owned(), "", Arc::default()),
        }
    }

    #[test]
    fn every_tool_has_a_name_of_its_own_that_servers_take() {
        let long = "x".repeat(100);
        let tools = vec![
            tool("a", "search"),
            tool("b", "search"),
            tool("b", "search"),
            tool("a", "odd name/ü"),
            tool("a", "task_complete"),
            tool("a", &long),
            tool("b", &long),
        ];
        let direct = DirectTools::new(tools, &["task_complete"]);
        let names = direct.names();
        assert_eq!(
            &names[..5],
            [
                "search",
                "b_search",
                "b_search_2",
                "odd_name__",
                "a_task_complete"
            ]
        );
        assert!(names.iter().all(|name| name.len() <= 64));
        assert_eq!(direct.get("b_search").unwrap().server, "b");
        assert_eq!(direct.definitions().len(), 7);
    }
}
