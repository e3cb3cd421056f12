//! An answer of the model, put together from its fragments.
//!
//! Servers differ: some name each fragment's call by an index, some give none or always the same, some repeat the id,
//! some send a call whole. A new call begins where the index is new, or where a used one comes with another id or
//! with a name after arguments.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    ModelError,
    json_end::JsonEnd,
    message::{Function, FunctionKind, Message, ToolCall, Usage},
};

/// Something of an answer that can be shown at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Some words.
    Text(String),
    /// Some thoughts.
    Reasoning(String),
}

/// Calls of one answer; a model that makes more has lost its way.
const MOST_CALLS: usize = 128;

/// Arguments of one call (bytes).
const LONGEST_ARGUMENTS: usize = 4 << 20;

/// The name of what is called (bytes).
const LONGEST_NAME: usize = 256;

/// An answer under way.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    has_choice: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    end: JsonEnd,
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
    /// Adds a chunk, or a whole answer of a server that does not stream; returns what it brought to show. What a
    /// server adds of its own, or leaves out, does no harm.
    ///
    /// # Errors
    /// When the chunk tells of an error.
    pub(super) fn add(&mut self, chunk: &Value) -> Result<Vec<Delivery>, ModelError> {
        if let Some(error) = chunk.get("error").filter(|error| tells(error)) {
            return Err(ModelError::InStream(super::failure::message_of(error)));
        }
        self.usage = chunk.get("usage").and_then(usage).or(self.usage);
        let Some(choice) = chunk.pointer("/choices/0") else {
            return Ok(Vec::new());
        };
        self.has_choice = true;
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        self.finish_reason = reason.map(str::to_owned).or(self.finish_reason.take());
        let parts = ["delta", "message"].map(|key| choice.get(key));
        let Some(delta) = parts.into_iter().flatten().find(|part| part.is_object()) else {
            return Ok(Vec::new());
        };
        let mut news = Vec::new();
        let thoughts =
            ["reasoning_content", "reasoning"].map(|key| delta.get(key).and_then(text_of));
        if let Some(text) = thoughts.into_iter().flatten().next() {
            news.push(Delivery::Reasoning(text));
        }
        if let Some(text) = delta.get("content").and_then(text_of) {
            self.text.push_str(&text);
            news.push(Delivery::Text(text));
        }
        let fragments = delta.get("tool_calls").and_then(Value::as_array);
        for fragment in fragments.into_iter().flatten() {
            self.add_fragment(fragment)?;
        }
        Ok(news)
    }

    /// Whether the model has said that it is done.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Whether there was anything of an answer.
    pub(super) fn has_choice(&self) -> bool {
        self.has_choice
    }

    fn add_fragment(&mut self, fragment: &Value) -> Result<(), ModelError> {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).map(str::to_owned);
            text.filter(|text| !text.is_empty())
        };
        let index = fragment.get("index").and_then(Value::as_u64);
        let id = text(fragment.get("id"));
        let name = text(fragment.pointer("/function/name"));
        let arguments = match fragment.pointer("/function/arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(whole) => whole.to_string(),
        };
        let place = self.place(index, id.as_deref(), name.as_deref());
        if self.calls.len() > MOST_CALLS {
            let reason = format!("it calls more than {MOST_CALLS} tools at once");
            return Err(ModelError::Nonsense(reason));
        }
        let call = &mut self.calls[place];
        call.id = call.id.take().or(id);
        if call.name.is_empty() {
            call.name = name.unwrap_or_default();
        }
        call.end.read(&arguments);
        call.arguments.push_str(&arguments);
        if call.arguments.len() > LONGEST_ARGUMENTS || call.name.len() > LONGEST_NAME {
            let reason = "a tool call in it is too long".to_owned();
            return Err(ModelError::Nonsense(reason));
        }
        Ok(())
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
            let begins_again = name.is_some() && !is_same_id && call.end.is_reached();
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
        let mut ids = HashSet::new();
        let calls = self.calls.into_iter().map(|call| ToolCall {
            id: call
                .id
                .filter(|id| id.len() <= LONGEST_NAME && ids.insert(id.clone()))
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
        let tool_calls = calls.collect();
        Answer {
            message: Message::Assistant {
                content: self.text,
                tool_calls,
            },
            usage: self.usage,
            is_cut: self.finish_reason.as_deref() == Some("length"),
        }
    }
}

/// A text, which may come in parts.
fn text_of(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Whether an error says something; some servers always have the key.
fn tells(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// Tokens, if that is what it has.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let (read, written) = (count("prompt_tokens"), count("completion_tokens"));
    (read.is_some() || written.is_some()).then(|| Usage {
        prompt_tokens: read.unwrap_or_default(),
        completion_tokens: written.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Assembly, Message, Usage};

    /// The names and arguments of the calls that these fragments make.
    fn calls(fragments: &[Value]) -> Vec<(String, String)> {
        let mut assembly = Assembly::default();
        for fragment in fragments {
            let chunk = json!({"choices": [{"delta": {"tool_calls": [fragment]}}]});
            assembly.add(&chunk).unwrap();
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

    #[test]
    fn what_servers_add_or_leave_out_does_no_harm() {
        let mut assembly = Assembly::default();
        for chunk in [
            json!({"choices": null, "usage": null, "error": null}),
            json!({"choices": [{"delta": null, "finish_reason": false}], "error": ""}),
            json!({"choices": [{"delta": {"content": "a", "reasoning": "x", "reasoning_content": "x", "tool_calls": null}}]}),
            json!({"id": 7, "choices": [{"delta": {"content": [{"type": "text", "text": "b"}]}, "message": {"content": "c"}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": -1, "id": 5, "function": {"name": "t", "arguments": null}}]}}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 3.5, "completion_tokens": 4, "total": "x"}}),
            json!([1]),
        ] {
            assembly.add(&chunk).unwrap();
        }
        let answer = assembly.finish();
        let expected = Usage {
            prompt_tokens: 0,
            completion_tokens: 4,
        };
        assert_eq!(answer.usage, Some(expected));
        let Message::Assistant {
            content,
            tool_calls,
        } = answer.message
        else {
            unreachable!("it is the model's");
        };
        assert_eq!((content.as_str(), tool_calls.len()), ("ab", 1));
    }
}
