//! The prompts.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
        PromptMessage, ResourceContents, Role,
    },
    service::RequestContext,
};
use serde_json::json;

use crate::{
    answer::argument,
    content::PNG,
    rounds::{self, Responses, form},
};

/// What any argument may be completed to.
const WORDS: [&str; 4] = ["paris", "park", "party", "test"];

/// The prompts; `more` says whether the one that comes and goes is there.
pub fn list(more: bool) -> Vec<Prompt> {
    let prompt = |name: &str, description: &str, arguments: &[&str]| {
        let argument = |name: &&str| {
            PromptArgument::new(*name)
                .with_description("Goes into the text")
                .with_required(true)
        };
        let arguments: Vec<PromptArgument> = arguments.iter().map(argument).collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        Prompt::new(name, Some(description), arguments)
    };
    let mut prompts = vec![
        prompt("test_simple_prompt", "One text", &[]),
        prompt(
            "test_prompt_with_arguments",
            "A text with two arguments",
            &["arg1", "arg2"],
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            "A resource and a text",
            &["resourceUri"],
        ),
        prompt("test_prompt_with_image", "An image and a text", &[]),
        prompt(
            "test_input_required_result_prompt",
            "Asks the user what it should say",
            &[],
        ),
    ];
    if more {
        prompts.push(prompt("test_comes_and_goes", "Comes and goes", &[]));
    }
    prompts
}

/// One prompt.
pub fn get(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let arguments = request.arguments.as_ref();
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![says("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument(arguments, "arg1"), argument(arguments, "arg2"));
            vec![says(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text(
                "Embedded resource content for testing.",
                argument(arguments, "resourceUri"),
            );
            vec![
                shows(ContentBlock::resource(resource)),
                says("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            shows(ContentBlock::image(PNG, "image/png")),
            says("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let responses = Responses(request.input_responses.as_ref());
            let Some(said) = responses.elicited("user_context", "context") else {
                let question = form("What context should the prompt use?", "context", "string");
                return rounds::ask_with_state(json!({"user_context": question}), None, context);
            };
            vec![says(format!("The context is {said}."))]
        }
        "test_comes_and_goes" => vec![says("Here today")],
        name => {
            let message = format!("there is no prompt `{name}`");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(GetPromptResult::new(messages).into())
}

/// Words that begin with what was typed.
pub fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let typed = request.argument.value.as_str();
    let words = WORDS.iter().filter(|word| word.starts_with(typed));
    let words = words.map(ToString::to_string).collect();
    CompletionInfo::with_all_values(words)
        .map(CompleteResult::new)
        .map_err(|problem| ErrorData::internal_error(problem, None))
}

fn says(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}

fn shows(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}
