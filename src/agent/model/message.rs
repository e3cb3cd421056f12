//! Messages of a conversation, as the chat completions API has them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// What the model is to be.
    System {
        /// The text.
        content: String,
    },
    /// What the user said.
    User {
        /// The text.
        content: String,
    },
    /// What the model said.
    Assistant {
        /// The text; empty where it only calls tools.
        content: String,
        /// The tools that it calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool said.
    Tool {
        /// The call that this answers.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// The text.
        content: String,
    },
}

/// A call that the model makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: FunctionKind,
    /// What is called.
    pub function: Function,
}

/// The one kind of tool that there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionKind {
    /// A function.
    #[default]
    Function,
}

/// The function of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its arguments as the model wrote them: JSON, if all went well.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
}

impl ToolDefinition {
    /// As a request has it.
    #[must_use]
    pub(super) fn json(&self) -> Value {
        serde_json::json!({"type": "function", "function": self})
    }
}

/// Tokens, as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Those that were read.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Those that were written.
    #[serde(default)]
    pub completion_tokens: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Adds those of another answer.
    pub fn add(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self
            .completion_tokens
            .saturating_add(other.completion_tokens);
    }
}
