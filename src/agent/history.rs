//! What was said so far.

use super::{
    direct::LONGEST_NAME,
    model::{Message, ToolCall},
};

/// What stands in place of the result of a call that was interrupted.
const INTERRUPTED_CALL: &str = "The user interrupted this call; it may have happened.";

/// What stands in place of an answer, or of the rest of one, that never came.
const INTERRUPTED: &str = "(this answer did not come to its end)";

/// What stands in place of a name that servers would refuse.
const NO_NAME: &str = "unknown";

/// The messages of a conversation, always in an order that a model's server accepts.
#[derive(Debug, Clone, Default)]
pub struct History {
    messages: Vec<Message>,
    /// What the model has said of an answer that is not whole.
    partial: String,
}

impl History {
    /// Begins with a system message.
    #[must_use]
    pub(super) fn new(prompt: String) -> Self {
        Self {
            messages: vec![Message::System { content: prompt }],
            partial: String::new(),
        }
    }

    /// The messages.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds a message.
    pub(super) fn push(&mut self, message: Message) {
        self.partial.clear();
        self.messages.push(message);
    }

    /// Adds what the model said. Its mistakes in calls stay out: many servers refuse a history that has them, and
    /// every later request would fail.
    pub(super) fn push_answer(&mut self, content: String, calls: &[ToolCall]) {
        let tool_calls = calls.iter().cloned().map(acceptable).collect();
        self.push(Message::Assistant {
            content,
            tool_calls,
        });
    }

    /// Adds some words of an answer that is not whole yet.
    pub(super) fn hear(&mut self, text: &str) {
        self.partial.push_str(text);
    }

    /// Forgets them: they come again.
    pub(super) fn unhear(&mut self) {
        self.partial.clear();
    }

    /// Closes what an interruption has left open: calls without a result, a question without an answer.
    pub(super) fn mend(&mut self) {
        let open = self.open_calls();
        let is_interrupted = !open.is_empty();
        for call in open {
            self.messages.push(Message::Tool {
                tool_call_id: call.id,
                name: call.function.name,
                content: INTERRUPTED_CALL.to_owned(),
            });
        }
        // After the results of calls that ended the turn, the user may speak.
        if !is_interrupted && !matches!(self.messages.last(), Some(Message::User { .. })) {
            return;
        }
        let partial = std::mem::take(&mut self.partial);
        let content = if partial.trim().is_empty() {
            INTERRUPTED.to_owned()
        } else {
            format!("{partial}\n{INTERRUPTED}")
        };
        self.messages.push(Message::Assistant {
            content,
            tool_calls: Vec::new(),
        });
    }

    fn open_calls(&self) -> Vec<ToolCall> {
        let mut answered: Vec<&str> = Vec::new();
        for message in self.messages.iter().rev() {
            match message {
                Message::Tool { tool_call_id, .. } => answered.push(tool_call_id),
                Message::Assistant { tool_calls, .. } => {
                    let is_open = |call: &&ToolCall| !answered.contains(&call.id.as_str());
                    return tool_calls.iter().filter(is_open).cloned().collect();
                }
                _ => break,
            }
        }
        Vec::new()
    }
}

/// The call as servers take it: with a name, and an object for its arguments.
pub(super) fn acceptable(mut call: ToolCall) -> ToolCall {
    let function = &mut call.function;
    if !is_object(&function.arguments) {
        "{}".clone_into(&mut function.arguments);
    }
    let is_fine = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let name = &function.name;
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_fine) {
        NO_NAME.clone_into(&mut function.name);
    }
    call
}

fn is_object(json: &str) -> bool {
    matches!(serde_json::from_str(json), Ok(serde_json::Value::Object(_)))
}

#[cfg(test)]
mod tests {
    use super::{History, INTERRUPTED, INTERRUPTED_CALL, Message};
    use crate::agent::model::{Function, FunctionKind, ToolCall};

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            kind: FunctionKind::Function,
            function: Function {
                name: "t".to_owned(),
                arguments: "{}".to_owned(),
            },
        }
    }

    #[test]
    fn calls_without_a_result_get_one() {
        let mut history = History::new("s".to_owned());
        history.push(Message::User {
            content: "u".to_owned(),
        });
        history.push(Message::Assistant {
            content: String::new(),
            tool_calls: vec![call("a"), call("b")],
        });
        let done = Message::Tool {
            tool_call_id: "a".to_owned(),
            name: "t".to_owned(),
            content: "1".to_owned(),
        };
        history.push(done);
        history.mend();
        let [.., open, last] = history.messages() else {
            unreachable!("there are many")
        };
        assert!(
            matches!(open, Message::Tool { tool_call_id, content, .. } if tool_call_id == "b" && content == INTERRUPTED_CALL)
        );
        assert!(matches!(last, Message::Assistant { content, .. } if content == INTERRUPTED));
        let length = history.messages().len();
        history.mend();
        assert_eq!(history.messages().len(), length);
    }

    #[test]
    fn an_answer_that_was_cut_off_is_kept() {
        let mut history = History::new("s".to_owned());
        history.push(Message::User {
            content: "u".to_owned(),
        });
        history.hear("half an ");
        history.hear("answer");
        history.mend();
        let expected = format!("half an answer\n{INTERRUPTED}");
        assert!(
            matches!(history.messages().last(), Some(Message::Assistant { content, .. }) if *content == expected)
        );
    }

    #[test]
    fn the_user_may_speak_after_results_and_mistakes_do_not_stay() {
        let mut history = History::new("s".to_owned());
        history.push(Message::User {
            content: "u".to_owned(),
        });
        let mut odd = call("a");
        odd.function.name = "no such/name".to_owned();
        odd.function.arguments = "{\"x\": ".to_owned();
        history.push_answer("?".to_owned(), &[odd]);
        history.push(Message::Tool {
            tool_call_id: "a".to_owned(),
            name: "t".to_owned(),
            content: String::new(),
        });
        let length = history.messages().len();
        history.mend();
        assert_eq!(history.messages().len(), length);
        let Message::Assistant { tool_calls, .. } = &history.messages()[2] else {
            unreachable!("it is the model's")
        };
        assert_eq!(tool_calls[0].function.name, "unknown");
        assert_eq!(tool_calls[0].function.arguments, "{}");
    }
}
