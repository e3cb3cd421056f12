//! An answer of the model, put together from its fragments.
//!
//! Servers differ: some name each fragment's call by an index, some give none or always the same, some repeat the id,
//! some send a call whole. A new call begins where the index is new, or where a used one comes with another id or
//! with a name after arguments.

use serde::Deserialize;
use serde_json::Value;

use super::{
    ModelError,
    message::{Function, FunctionKind, Message, ToolCall, Usage},
};

/// One chunk of a stream, or a whole answer of a server that doesn't stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Vec<Fragment>>,
}

#[derive(Debug, Default, Deserialize)]
struct Fragment {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionFragment>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionFragment {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

/// Something of an answer that can be shown at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Some words.
    Text(String),
    /// Some thoughts.
    Reasoning(String),
}

/// An answer under way.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// What the model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The message, for the history.
    pub message: Message,
    /// What it cost, if the server says so.
    pub usage: Option<Usage>,
    /// Whether it was cut off at the largest length.
    pub is_cut: bool,
}

impl Assembly {
    /// Adds a chunk; returns what it brought to show.
    ///
    /// # Errors
    /// When the chunk tells of an error.
    pub(super) fn add(&mut self, chunk: Chunk) -> Result<Vec<Delivery>, ModelError> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ModelError::InStream(super::failure::message_of(&error)));
        }
        self.usage = chunk.usage.or(self.usage);
        let mut news = Vec::new();
        for choice in chunk.choices.into_iter().take(1) {
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            let Delta {
                content,
                reasoning_content,
                tool_calls,
            } = choice.delta.unwrap_or_default();
            if let Some(text) = text_of(reasoning_content) {
                news.push(Delivery::Reasoning(text));
            }
            if let Some(text) = text_of(content) {
                self.text.push_str(&text);
                news.push(Delivery::Text(text));
            }
            tool_calls
                .into_iter()
                .flatten()
                .for_each(|fragment| self.add_fragment(fragment));
        }
        Ok(news)
    }

    /// Whether the model has said that it is done.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn add_fragment(&mut self, fragment: Fragment) {
        let Fragment {
            index,
            id,
            function,
        } = fragment;
        let FunctionFragment { name, arguments } = function.unwrap_or_default();
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let arguments = match arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(whole) => whole.to_string(),
        };
        let place = self.place(index, id.as_deref(), name.as_deref());
        let call = &mut self.calls[place];
        call.id = call.id.take().or(id);
        if call.name.is_empty() {
            call.name = name.unwrap_or_default();
        }
        call.arguments.push_str(&arguments);
    }

    /// The call that a fragment belongs to, made if need be.
    fn place(&mut self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> usize {
        let known = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        if let Some(place) = known {
            let call = &self.calls[place];
            let is_other_id = id.is_some() && call.id.is_some() && call.id.as_deref() != id;
            let is_same_id = id.is_some() && call.id.as_deref() == id;
            let begins_again = name.is_some() && !is_same_id && is_whole(&call.arguments);
            if !is_other_id && !begins_again {
                return place;
            }
        }
        self.calls.push(Call {
            index,
            ..Call::default()
        });
        self.calls.len() - 1
    }

    /// The answer. Calls without an id get one of ours.
    pub(super) fn finish(self) -> Answer {
        let calls = self.calls.into_iter().map(|call| ToolCall {
            id: call
                .id
                .unwrap_or_else(|| format!("call_{}", uuid::Uuid::new_v4().simple())),
            kind: FunctionKind::Function,
            function: Function {
                name: call.name,
                arguments: match call.arguments.trim() {
                    "" => "{}".to_owned(),
                    _ => call.arguments,
                },
            },
        });
        Answer {
            message: Message::Assistant {
                content: self.text,
                tool_calls: calls.collect(),
            },
            usage: self.usage,
            is_cut: self.finish_reason.as_deref() == Some("length"),
        }
    }
}

/// Whether this is a JSON object to its end.
fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

/// A text, which may come in parts.
fn text_of(content: Option<Value>) -> Option<String> {
    let text = match content? {
        Value::String(text) => text,
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Assembly, Chunk, Message};

    /// The names and arguments of the calls that these fragments make.
    fn calls(fragments: &[Value]) -> Vec<(String, String)> {
        let mut assembly = Assembly::default();
        for fragment in fragments {
            let chunk = json!({"choices": [{"delta": {"tool_calls": [fragment]}}]});
            let chunk: Chunk = serde_json::from_value(chunk).unwrap();
            assembly.add(chunk).unwrap();
        }
        let Message::Assistant { tool_calls, .. } = assembly.finish().message else {
            unreachable!("it is the model's");
        };
        let call = |call: super::ToolCall| (call.function.name, call.function.arguments);
        tool_calls.into_iter().map(call).collect()
    }

    fn named(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, arguments): &(&str, &str)| ((*name).to_owned(), (*arguments).to_owned());
        expected.iter().map(own).collect()
    }

    #[test]
    fn fragments_of_several_calls_come_interleaved() {
        let found = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}),
            json!({"index": 1, "id": "b", "function": {"name": "two", "arguments": "{"}}),
            json!({"index": 0, "function": {"arguments": "{\"x\":"}}),
            json!({"index": 1, "function": {"arguments": "}"}}),
            json!({"index": 0, "function": {"arguments": "1}"}}),
        ]);
        assert_eq!(found, named(&[("one", "{\"x\":1}"), ("two", "{}")]));
    }

    #[test]
    fn calls_without_an_index_or_with_the_same_one_are_told_apart() {
        let whole = |index: Value, id: Value, name: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": "{}"}});
        let both = named(&[("one", "{}"), ("two", "{}")]);
        assert_eq!(
            calls(&[
                whole(json!(0), json!("a"), "one"),
                whole(json!(0), json!("b"), "two")
            ]),
            both
        );
        assert_eq!(
            calls(&[
                whole(json!(null), json!("a"), "one"),
                whole(json!(null), json!("b"), "two")
            ]),
            both
        );
        assert_eq!(
            calls(&[
                whole(json!(null), json!(null), "one"),
                whole(json!(null), json!(null), "two")
            ]),
            both
        );
    }

    #[test]
    fn repeated_ids_and_names_are_the_same_call() {
        let piece = |text: &str| json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": text}});
        assert_eq!(
            calls(&[piece("{\"a\""), piece(": {}"), piece("}")]),
            named(&[("one", "{\"a\": {}}")])
        );
        let bare = |text: &str| json!({"index": 0, "id": null, "function": {"name": null, "arguments": text}});
        assert_eq!(calls(&[piece("{"), bare("}")]), named(&[("one", "{}")]));
    }

    #[test]
    fn arguments_may_be_an_object_or_missing() {
        assert_eq!(
            calls(&[json!({"function": {"name": "one", "arguments": {"x": 1}}})]),
            named(&[("one", "{\"x\":1}")])
        );
        assert_eq!(
            calls(&[json!({"function": {"name": "one"}})]),
            named(&[("one", "{}")])
        );
    }
}
