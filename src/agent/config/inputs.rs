//! Values that a person is asked for, and the places that they go to: `${input:ID}`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What is to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Input {
    /// Its name in the configuration.
    pub id: String,
    /// What it is, for the person.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether nobody else may see it.
    #[serde(default)]
    pub password: bool,
}

impl Input {
    /// The environment variable that has the value where nobody gives one.
    #[must_use]
    pub fn variable(&self) -> String {
        self.id.replace('-', "_").to_uppercase()
    }

    fn placeholder(&self) -> String {
        placeholder(&self.id)
    }
}

/// What was answered.
#[derive(Debug, Clone, Default)]
pub struct InputValues(BTreeMap<String, String>);

impl InputValues {
    /// Keeps the value of an input.
    pub fn set(&mut self, input: &Input, value: String) {
        self.0.insert(input.id.clone(), value);
    }

    /// All values that are long enough to be secrets.
    pub(super) fn secrets(&self) -> Vec<String> {
        let values = self.0.values().filter(|value| value.len() >= 4);
        values.cloned().collect()
    }

    /// Puts the values where they belong: anywhere but in the list of inputs itself.
    pub(super) fn fill(&self, document: &mut Value) {
        for (key, value) in document.as_object_mut().into_iter().flatten() {
            if key != "inputs" {
                self.fill_value(value);
            }
        }
    }

    fn fill_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.filled(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_value(item)),
            Value::Object(members) => members
                .values_mut()
                .for_each(|member| self.fill_value(member)),
            _ => {}
        }
    }

    /// In one pass: a value that looks like a placeholder is a value.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, id, after)) = next_placeholder(rest) {
            filled.push_str(before);
            match self.0.get(id) {
                Some(value) => filled.push_str(value),
                None => filled.push_str(&placeholder(id)),
            }
            rest = after;
        }
        filled + rest
    }
}

/// Whether something in the configuration asks for the input.
pub(super) fn is_used(document: &Value, input: &Input) -> bool {
    let members = document.as_object().into_iter().flatten();
    let mut others = members.filter(|(key, _)| *key != "inputs");
    others.any(|(_, value)| texts(value).any(|text| text.contains(&input.placeholder())))
}

/// Names that the configuration asks for and does not have.
pub(super) fn undeclared(document: &Value, declared: &[Input]) -> Vec<String> {
    let mut missing = Vec::new();
    for (_, value) in document.as_object().into_iter().flatten() {
        for text in texts(value) {
            let mut rest = text;
            while let Some((_, id, after)) = next_placeholder(rest) {
                let is_known = declared.iter().any(|input| input.id == id);
                if !is_known && !missing.iter().any(|known| known == id) {
                    missing.push(id.to_owned());
                }
                rest = after;
            }
        }
    }
    missing
}

fn placeholder(id: &str) -> String {
    format!("${{input:{id}}}")
}

/// What is before a placeholder, its name, and what is after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${input:")?;
    let (id, after) = rest.split_once('}')?;
    Some((before, id, after))
}

/// All texts in a value.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let mut waiting = vec![value];
    std::iter::from_fn(move || {
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) => return Some(text.as_str()),
                Value::Array(items) => waiting.extend(items),
                Value::Object(members) => waiting.extend(members.values()),
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Input, InputValues, is_used, undeclared};

    fn input(id: &str) -> Input {
        Input {
            id: id.to_owned(),
            description: None,
            password: false,
        }
    }

    #[test]
    fn every_place_is_filled_once() {
        let mut document = json!({
            "inputs": [{"id": "a", "description": "${input:a}"}],
            "apiKey": "${input:a}",
            "servers": [{"env": {"X": "<${input:a}|${input:a}|${input:other}|${input:"}, "args": ["${input:b}"]}],
        });
        let mut values = InputValues::default();
        values.set(&input("a"), "$& ${input:b}".to_owned());
        values.set(&input("b"), "B".to_owned());
        values.fill(&mut document);
        assert_eq!(document["apiKey"], "$& ${input:b}");
        let expected = "<$& ${input:b}|$& ${input:b}|${input:other}|${input:";
        assert_eq!(document["servers"][0]["env"]["X"], expected);
        assert_eq!(document["servers"][0]["args"][0], "B");
        assert_eq!(document["inputs"][0]["description"], "${input:a}");
    }

    #[test]
    fn unused_and_undeclared_inputs_are_known() {
        let document =
            json!({"inputs": [{"id": "a"}, {"id": "b"}], "apiKey": "${input:a}${input:c}"});
        assert!(is_used(&document, &input("a")));
        assert!(!is_used(&document, &input("b")));
        assert_eq!(undeclared(&document, &[input("a"), input("b")]), ["c"]);
        assert_eq!(input("hf-token").variable(), "HF_TOKEN");
    }
}
