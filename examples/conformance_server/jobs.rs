//! Tools whose work goes on after their result, as tasks (SEP-2663).

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, CreateTaskResult, InputRequest,
        Tool,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, argument, failure, plain, text, with_parameters, with_schema},
    fixtures::Shared,
    rounds::{self, Responses, form, name_form},
};

/// How long a job takes that fails anyway.
const MOMENT: Duration = Duration::from_millis(200);

/// The tools.
pub fn tools() -> Vec<Tool> {
    vec![
        with_parameters(
            "greet",
            "Greets; never a task",
            json!({"name": {"type": "string"}}),
        ),
        with_schema(
            "slow_compute",
            "Takes a while; a task for clients that know tasks",
            json!({
                "type": "object",
                "properties": {"seconds": {"type": "integer"}, "label": {"type": "string"}},
            }),
        ),
        plain("failing_job", "A task that fails as tools fail"),
        plain("protocol_error_job", "A task that fails as requests fail"),
        with_parameters(
            "confirm_delete",
            "A task that asks the user something",
            json!({"filename": {"type": "string"}}),
        ),
        plain(
            "multi_input",
            "A task that asks the user two things at once",
        ),
        plain(
            "test_tool_with_task",
            "Asks the user something, then becomes a task",
        ),
    ]
}

/// The answer, if the tool is one of these.
pub async fn call(
    shared: &Shared,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Answer> {
    let arguments = request.arguments.as_ref();
    let capabilities = context.client_capabilities().unwrap_or_default();
    let tasks = Tasks {
        manager: &shared.tasks,
        are_known: capabilities.supports_tasks(),
    };
    Some(match &*request.name {
        "greet" => Ok(text(format!("Hello, {}!", argument(arguments, "name"))).into()),
        "slow_compute" => {
            let seconds = arguments.and_then(|arguments| arguments.get("seconds")?.as_u64());
            let time = Duration::from_secs(seconds.unwrap_or_default());
            if tasks.are_known {
                tasks.start(move |task| compute(time, task))
            } else {
                tokio::time::sleep(time).await;
                Ok(computed(time).into())
            }
        }
        "failing_job" => tasks.start(async |_| {
            tokio::time::sleep(MOMENT).await;
            Ok(failure("the job has failed"))
        }),
        "protocol_error_job" => tasks.start(async |_| {
            let error = ErrorData::internal_error("the job could not be done", None);
            Err(TaskExit::Error(error))
        }),
        "confirm_delete" => {
            let file = argument(arguments, "filename").to_owned();
            tasks.start(move |task| confirm_delete(file, task))
        }
        "multi_input" => tasks.start(ask_two),
        "test_tool_with_task" => {
            let responses = Responses(request.input_responses.as_ref());
            if let Some(name) = responses.elicited("user_name", "name") {
                let greeting = format!("Hello, {name}!");
                tasks.start(async move |_| Ok(text(greeting)))
            } else {
                let questions = json!({"user_name": name_form("What is your name?")});
                rounds::ask_with_state(questions, None, context)
            }
        }
        _ => return None,
    })
}

async fn compute(time: Duration, task: TaskContext) -> Result<CallToolResult, TaskExit> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(computed(time)),
        () = task.cancelled() => Err(TaskExit::Cancelled),
    }
}

fn computed(time: Duration) -> CallToolResult {
    text(format!("computed for {time:?}"))
}

async fn confirm_delete(file: String, task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let question = format!("Delete {file}?");
    let answer = ask(&task, "confirm", form(&question, "confirm", "boolean")).await?;
    Ok(if answer["content"]["confirm"] == true {
        text(format!("{file} would be gone now"))
    } else {
        text(format!("{file} is kept"))
    })
}

async fn ask_two(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let (first, second) = tokio::try_join!(
        ask(&task, "first", name_form("Who is the first?")),
        ask(&task, "second", name_form("Who is the second?")),
    )?;
    let name = |answer: &Value| answer["content"]["name"].clone();
    Ok(text(format!("{} and {}", name(&first), name(&second))))
}

async fn ask(task: &TaskContext, key: &str, question: Value) -> Result<Value, TaskExit> {
    let question: InputRequest =
        serde_json::from_value(question).expect("rmcp knows these requests");
    task.request_input(key, question).await
}

/// The tasks, as one client may have them.
struct Tasks<'a> {
    manager: &'a TaskManager,
    /// Whether it said that it knows what a task is.
    are_known: bool,
}

impl Tasks<'_> {
    fn start<W: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static>(
        &self,
        work: impl FnOnce(TaskContext) -> W,
    ) -> Answer {
        if !self.are_known {
            let lacking = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(lacking));
        }
        let options = TaskOptions::default();
        let task = self
            .manager
            .spawn(options, |context| Box::pin(work(context)));
        Ok(CreateTaskResult::new(task).into())
    }
}
