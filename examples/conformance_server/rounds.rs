//! What asks the client something by way of its result, as is done from 2026-07-28 on (SEP-2322): the
//! client calls again with its answers, as often as it is asked.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, InputRequest, InputRequests,
        InputRequiredResult, InputResponses, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, plain, text},
    fixtures::Shared,
};

/// The tools.
pub fn tools() -> Vec<Tool> {
    vec![
        plain(
            "test_input_required_result_elicitation",
            "Asks the user for a name",
        ),
        plain("test_streaming_elicitation", "Asks the user for a name"),
        plain(
            "test_input_required_result_sampling",
            "Asks the client's model",
        ),
        plain(
            "test_missing_capability",
            "Asks the client's model, if there is one",
        ),
        plain(
            "test_input_required_result_list_roots",
            "Asks for the client's roots",
        ),
        plain(
            "test_input_required_result_multiple_inputs",
            "Asks the user, the model and for the roots at once",
        ),
        plain(
            "test_input_required_result_capabilities",
            "Asks whatever can be asked",
        ),
        plain(
            "test_input_required_result_request_state",
            "Gives the client something to keep, and wants it back",
        ),
        plain(
            "test_input_required_result_tampered_state",
            "Gives the client something to keep, and wants it back unchanged",
        ),
        plain(
            "test_input_required_result_multi_round",
            "Asks twice, one after the other",
        ),
    ]
}

/// The answer, if the tool is one of these.
pub fn call(
    shared: &Shared,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Answer> {
    let responses = Responses(request.input_responses.as_ref());
    Some(match &*request.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            match responses.elicited("user_name", "name") {
                Some(name) => Ok(text(format!("Hello, {name}!")).into()),
                None => ask(
                    json!({"user_name": name_form("What is your name?")}),
                    context,
                ),
            }
        }
        "test_input_required_result_sampling" | "test_missing_capability" => {
            if let Some(said) = responses.sampled("capital_question") {
                Ok(text(said).into())
            } else {
                let question = sampling("What is the capital of France?");
                ask(json!({"capital_question": question}), context)
            }
        }
        "test_input_required_result_list_roots" => match responses.roots("client_roots") {
            Some(roots) => Ok(text(roots.join(", ")).into()),
            None => ask(json!({"client_roots": roots()}), context),
        },
        "test_input_required_result_multiple_inputs" => ask_three(shared, request, context),
        "test_input_required_result_capabilities" => {
            match (
                responses.elicited("user_name", "name"),
                responses.sampled("greeting"),
            ) {
                (None, None) => Ok(ask_what_can_be_asked(context)),
                (name, greeting) => Ok(text(format!("{name:?}, {greeting:?}")).into()),
            }
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => confirm(shared, request, context),
        "test_input_required_result_multi_round" => ask_twice(shared, request, context),
        _ => return None,
    })
}

fn ask_three(
    shared: &Shared,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Answer {
    if let Some(state) = &request.request_state {
        shared.open(&request.name, state)?;
    }
    let responses = Responses(request.input_responses.as_ref());
    let name = responses.elicited("user_name", "name");
    let greeting = responses.sampled("greeting");
    let places = responses.roots("client_roots");
    if let (Some(name), Some(greeting), Some(places)) = (name, greeting, places) {
        return Ok(text(format!("{greeting} {name} of {}", places.join(", "))).into());
    }
    let questions = json!({
        "user_name": name_form("What is your name?"),
        "greeting": sampling("Generate a greeting"),
        "client_roots": roots(),
    });
    let state = shared.seal(&request.name, &json!("asked"));
    ask_with_state(questions, Some(state), context)
}

/// A client is asked for nothing that it did not say it can do.
fn ask_what_can_be_asked(context: &RequestContext<RoleServer>) -> CallToolResponse {
    let mut questions = requests(json!({
        "user_name": name_form("What is your name?"),
        "greeting": sampling("Generate a greeting"),
    }));
    questions.retain(|_, question| lacking([&*question], context).is_none());
    if questions.is_empty() {
        return text("there is nothing that this client can be asked").into();
    }
    InputRequiredResult::from_input_requests(questions).into()
}

fn confirm(
    shared: &Shared,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Answer {
    if let Some(state) = &request.request_state {
        shared.open(&request.name, state)?;
        let responses = Responses(request.input_responses.as_ref());
        if responses.elicited("confirm", "ok").is_some() {
            return Ok(text("state-ok").into());
        }
    }
    let question = form("Please confirm", "ok", "boolean");
    let state = shared.seal(&request.name, &json!("asked"));
    ask_with_state(json!({"confirm": question}), Some(state), context)
}

/// What the first round found out is in the state that the client brings to the third.
fn ask_twice(
    shared: &Shared,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Answer {
    let state = request.request_state.as_deref();
    let state = state.map(|state| shared.open(&request.name, state));
    let known = state.transpose()?.unwrap_or_default();
    let responses = Responses(request.input_responses.as_ref());
    let name = known["name"]
        .as_str()
        .or_else(|| responses.elicited("step1", "name")?.as_str());
    let Some(name) = name else {
        let question = name_form("Step 1: What is your name?");
        let state = shared.seal(&request.name, &json!({}));
        return ask_with_state(json!({"step1": question}), Some(state), context);
    };
    let Some(color) = responses.elicited("step2", "color") else {
        let question = form("Step 2: What is your favorite color?", "color", "string");
        let state = shared.seal(&request.name, &json!({"name": name}));
        return ask_with_state(json!({"step2": question}), Some(state), context);
    };
    Ok(text(format!("{name} likes {color}")).into())
}

/// The client's answers, which may be anything.
pub struct Responses<'a>(pub Option<&'a InputResponses>);

impl<'a> Responses<'a> {
    /// A field of the form that the user filled in.
    pub fn elicited(&self, key: &str, field: &str) -> Option<&'a Value> {
        let response = self.0?.get(key)?;
        let is_accepted = response.get("action")?.as_str() == Some("accept");
        let value = response.get("content")?.get(field)?;
        is_accepted.then_some(value)
    }

    fn sampled(&self, key: &str) -> Option<&'a str> {
        self.0?.get(key)?.get("content")?.get("text")?.as_str()
    }

    fn roots(&self, key: &str) -> Option<Vec<&'a str>> {
        let roots = self.0?.get(key)?.get("roots")?.as_array()?;
        roots.iter().map(|root| root.get("uri")?.as_str()).collect()
    }
}

/// A form for the user with the one field `name`.
pub fn name_form(message: &str) -> Value {
    form(message, "name", "string")
}

/// A form for the user with one field.
pub fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {field: {"type": kind}},
                "required": [field],
            },
        },
    })
}

fn sampling(question: &str) -> Value {
    json!({
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": question}}],
            "maxTokens": 100,
        },
    })
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Questions as rmcp has them.
pub fn requests(questions: Value) -> InputRequests {
    serde_json::from_value(questions).expect("rmcp knows these requests")
}

fn ask<T: From<InputRequiredResult>>(
    questions: Value,
    context: &RequestContext<RoleServer>,
) -> Result<T, ErrorData> {
    ask_with_state(questions, None, context)
}

/// Asks the client, if it can be asked.
pub fn ask_with_state<T: From<InputRequiredResult>>(
    questions: Value,
    state: Option<String>,
    context: &RequestContext<RoleServer>,
) -> Result<T, ErrorData> {
    let questions = requests(questions);
    match lacking(questions.values(), context) {
        Some(lacking) => Err(ErrorData::missing_required_client_capability(lacking)),
        None => Ok(InputRequiredResult::new(Some(questions), state).into()),
    }
}

/// What a client would have to be able to do for these questions, and has not said that it can.
fn lacking<'a>(
    questions: impl IntoIterator<Item = &'a InputRequest>,
    context: &RequestContext<RoleServer>,
) -> Option<ClientCapabilities> {
    let has = context.client_capabilities().unwrap_or_default();
    let mut lacking = ClientCapabilities::default();
    for question in questions {
        match question {
            InputRequest::Elicitation(_) if has.elicitation.is_none() => {
                lacking.elicitation.get_or_insert_default();
            }
            InputRequest::CreateMessage(_) if has.sampling.is_none() => {
                lacking.sampling.get_or_insert_default();
            }
            InputRequest::ListRoots(_) if has.roots.is_none() => {
                lacking.roots.get_or_insert_default();
            }
            _ => {}
        }
    }
    (lacking != ClientCapabilities::default()).then_some(lacking)
}
