//! What a schema says against arguments, in words that help to put it right.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::Value;

use super::offered::{bounded, nearest};

/// Unknown names that are told of one object.
const TOLD: usize = 10;

/// An error in words; `known` are the names of the tool's arguments.
pub(super) fn describe(error: &ValidationError<'_>, known: &[String]) -> String {
    if let Some(branch) = meant_branch(error) {
        let told: Vec<String> = branch
            .iter()
            .take(TOLD)
            .map(|error| describe(error, known))
            .collect();
        return told.join("; ");
    }
    let path = error.instance_path().to_string();
    let place = path.strip_prefix('/').map(bounded);
    let text = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = if place.is_none() { known } else { &[] };
            unknown(unexpected, known)
        }
        ValidationErrorKind::Required { property } => match property {
            Value::String(name) => format!("missing argument `{}`", bounded(name)),
            other => format!("missing argument {other}"),
        },
        _ => bounded(&error.to_string()),
    };
    match place {
        Some(place) => format!("`{place}`: {text}"),
        None => text,
    }
}

/// Of several alternatives the one that was meant: that in which the value has the right type. It is
/// how optional parameters are written, with null as the other alternative.
fn meant_branch<'a>(error: &'a ValidationError<'_>) -> Option<&'a [ValidationError<'static>]> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return None;
    };
    let is_of_another_type = |inner: &ValidationError<'_>| {
        matches!(inner.kind(), ValidationErrorKind::Type { .. })
            && inner.instance_path() == error.instance_path()
    };
    let mut meant = context
        .iter()
        .filter(|branch| !branch.iter().any(is_of_another_type));
    match (meant.next(), meant.next()) {
        (Some(branch), None) if !branch.is_empty() => Some(branch),
        _ => None,
    }
}

fn unknown(names: &[String], known: &[String]) -> String {
    let told: Vec<String> = names
        .iter()
        .take(TOLD)
        .map(|name| {
            let shown = bounded(name);
            match nearest(name, known.iter().map(String::as_str)) {
                Some(nearest) => format!("unknown argument `{shown}`; did you mean `{nearest}`?"),
                None => format!("unknown argument `{shown}`"),
            }
        })
        .collect();
    told.join("; ")
}
