//! The loop: the model is asked, what it calls is called, and it is asked again, until it has answered.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use futures::future::join_all;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{
    Agent, Event,
    direct::DirectTools,
    event::{EndReason, Summary},
    history,
    model::{Answer, Delivery, Heard, Message, ModelError, ToolCall, ToolDefinition, Usage},
    text,
    toolbox::{ServerTool, Use},
};
use crate::server::RUN_PYTHON_CODE;

/// Tools with which the model ends its turn.
const TASK_COMPLETE: &str = "task_complete";
const ASK_QUESTION: &str = "ask_question";

/// Names that no tool of a server can have.
const TAKEN: [&str; 3] = [TASK_COMPLETE, ASK_QUESTION, RUN_PYTHON_CODE];

type Ear = mpsc::UnboundedSender<Event>;

/// What is known of a task under way.
struct Task {
    ear: Ear,
    begun: Instant,
    turns: usize,
    calls: AtomicUsize,
    usage: Option<Usage>,
    answer: String,
}

impl Task {
    fn tell(&self, event: Event) {
        // Nobody may listen any more.
        let _ = self.ear.send(event);
    }

    /// Tells of what the tools do.
    fn pass(&self, event: Event) {
        if matches!(event, Event::Call { .. }) {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        self.tell(event);
    }

    fn end(self, reason: EndReason, error: Option<String>) {
        let ear = self.ear;
        let summary = Summary {
            reason,
            answer: self.answer,
            error,
            turns: self.turns,
            calls: self.calls.into_inner(),
            usage: self.usage,
            duration: self.begun.elapsed(),
        };
        let _ = ear.send(Event::End(summary));
    }
}

/// What the model may call in one turn.
struct Offer {
    definitions: Vec<ToolDefinition>,
    tools: Vec<ServerTool>,
    direct: DirectTools,
}

impl Agent {
    /// Works on a task to its end.
    pub(super) async fn work(&mut self, content: String, ear: Ear) {
        self.history.mend();
        self.history.push(Message::User { content });
        let mut task = Task {
            ear,
            begun: Instant::now(),
            turns: 0,
            calls: AtomicUsize::new(0),
            usage: None,
            answer: String::new(),
        };
        let (ear, mut heard) = mpsc::unbounded_channel();
        self.toolbox.listen(Some(ear));
        let end = self.turns(&mut task, &mut heard).await;
        self.toolbox.listen(None);
        match end {
            Ok(reason) => task.end(reason, None),
            Err(error) => task.end(EndReason::ModelError, Some(error.to_string())),
        }
    }

    async fn turns(
        &mut self,
        task: &mut Task,
        heard: &mut mpsc::UnboundedReceiver<Event>,
    ) -> Result<EndReason, ModelError> {
        loop {
            if task.turns == self.limits.turns {
                return Ok(EndReason::TurnLimit);
            }
            task.turns += 1;
            task.tell(Event::Turn { number: task.turns });
            let offer = self.offer().await;
            let answer = self.ask(&offer, task).await?;
            if let Some(usage) = answer.usage {
                task.usage.get_or_insert_default().add(usage);
            }
            let Message::Assistant {
                content,
                tool_calls,
            } = answer.message
            else {
                return Ok(EndReason::Answered);
            };
            self.history.push_answer(content.clone(), &tool_calls);
            if !content.trim().is_empty() {
                task.answer = content;
            }
            match (tool_calls.is_empty(), answer.is_cut) {
                (true, true) => return Ok(EndReason::Cut),
                (true, false) => return Ok(EndReason::Answered),
                _ => {}
            }
            if let Some(end) = self.call_all(&tool_calls, &offer, task, heard).await {
                return Ok(end);
            }
        }
    }

    async fn offer(&self) -> Offer {
        let tools = self.toolbox.tools().await;
        let mut definitions = exit_tools();
        if let Some(code) = &self.code {
            definitions.push(code.definition(&tools).await);
        }
        let direct = if self.mode.has_tools() {
            DirectTools::new(tools.clone(), &TAKEN)
        } else {
            DirectTools::default()
        };
        definitions.extend(direct.definitions());
        Offer {
            definitions,
            tools,
            direct,
        }
    }

    async fn ask(&mut self, offer: &Offer, task: &Task) -> Result<Answer, ModelError> {
        let messages = self.history.messages().to_vec();
        let history = &mut self.history;
        let mut hear = |heard: Heard| match heard {
            Heard::Delivery(Delivery::Text(text)) => {
                history.hear(&text);
                task.tell(Event::Text { text });
            }
            Heard::Delivery(Delivery::Reasoning(text)) => task.tell(Event::Reasoning { text }),
            Heard::Again { error, pause } => {
                history.unhear();
                let reason = error.to_string();
                task.tell(Event::Retry { reason, pause });
            }
        };
        self.model
            .ask(&messages, &offer.definitions, &mut hear)
            .await
    }

    /// Makes all calls of one answer, side by side; each gets its result into the history, in the model's order.
    async fn call_all(
        &mut self,
        calls: &[ToolCall],
        offer: &Offer,
        task: &mut Task,
        heard: &mut mpsc::UnboundedReceiver<Event>,
    ) -> Option<EndReason> {
        let results = {
            let this = &*self;
            let listener = &*task;
            let all = join_all(calls.iter().map(|call| this.call(call, offer, listener)));
            let mut all = std::pin::pin!(all);
            loop {
                tokio::select! {
                    biased;
                    Some(event) = heard.recv() => listener.pass(event),
                    results = &mut all => break results,
                }
            }
        };
        while let Ok(event) = heard.try_recv() {
            task.pass(event);
        }
        let mut end = None;
        for (call, content) in calls.iter().zip(results) {
            end = end.or(match call.function.name.as_str() {
                TASK_COMPLETE => Some(EndReason::TaskComplete),
                ASK_QUESTION => Some(EndReason::AskQuestion),
                _ => None,
            });
            self.history.push(Message::Tool {
                tool_call_id: call.id.clone(),
                name: history::acceptable(call.clone()).function.name,
                content,
            });
        }
        end
    }

    /// What the model reads of one call.
    async fn call(&self, call: &ToolCall, offer: &Offer, task: &Task) -> String {
        let name = call.function.name.as_str();
        if [TASK_COMPLETE, ASK_QUESTION].contains(&name) {
            return String::new();
        }
        let arguments = match arguments(&call.function.arguments) {
            Ok(arguments) => arguments,
            Err(reason) => return format!("Error: {reason}"),
        };
        let text = match (&self.code, offer.direct.get(name)) {
            (Some(_), _) if name == RUN_PYTHON_CODE => {
                self.run_code(call, &arguments, offer, task).await
            }
            (_, Some(tool)) => self.call_tool(call, tool, arguments).await,
            _ => unknown(name, offer),
        };
        text::cut(&text, self.limits.result)
    }

    async fn call_tool(
        &self,
        call: &ToolCall,
        tool: &ServerTool,
        arguments: Map<String, Value>,
    ) -> String {
        let used = Use {
            id: call.id.clone(),
            server: &tool.server,
            tool: &tool.tool.name,
            arguments,
            from_code: false,
        };
        match self.toolbox.call(used).await {
            Ok(result) if result.is_error == Some(true) => {
                format!("Error: {}", text::of_result(&result))
            }
            Ok(result) => text::of_result(&result),
            Err(reason) => format!("Error: {reason}"),
        }
    }

    async fn run_code(
        &self,
        call: &ToolCall,
        arguments: &Map<String, Value>,
        offer: &Offer,
        task: &Task,
    ) -> String {
        let (Some(code), Some(Value::String(program))) = (&self.code, arguments.get("python_code"))
        else {
            return "Error: give the program as `python_code`, a text".to_owned();
        };
        // Programs of one answer run in their order: one may rest on what another has done.
        let _turn = self.programs.lock().await;
        task.tell(Event::Code {
            id: call.id.clone(),
            code: program.clone(),
        });
        let start = Instant::now();
        let result = code.run(program, &offer.tools).await;
        let (status, text) = match &result {
            Ok(result) => {
                let status = result
                    .structured_content
                    .as_ref()
                    .and_then(|of| of.get("status"));
                let status = status.and_then(Value::as_str).unwrap_or("run-error");
                (status, text::of_result(result))
            }
            Err(reason) => ("run-error", format!("Error: {reason}")),
        };
        task.tell(Event::CodeResult {
            id: call.id.clone(),
            status: status.to_owned(),
            text: text.clone(),
            duration: start.elapsed(),
        });
        text
    }
}

/// Arguments as the model wrote them.
fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the arguments of a call are a JSON object".to_owned()),
        Err(error) => Err(format!(
            "the arguments are not JSON ({error}); write the call again. They were: {}",
            text::cut(text, 500)
        )),
    }
}

fn unknown(name: &str, offer: &Offer) -> String {
    let names: Vec<&str> = offer
        .definitions
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let mut hint = String::new();
    if offer.direct.names().is_empty() && offer.tools.iter().any(|tool| tool.tool.name == name) {
        hint = format!(" `{name}` is called by Python code, with `{RUN_PYTHON_CODE}`.");
    }
    format!(
        "Error: there is no tool `{}`; there are: {}.{hint}",
        name.chars().take(100).collect::<String>().escape_debug(),
        text::cut(&names.join(", "), 2000)
    )
}

/// What tiny-agents offers beside the tools of servers.
fn exit_tools() -> Vec<ToolDefinition> {
    let tool = |name: &str, description: &str| ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {}}),
    };
    vec![
        tool(
            TASK_COMPLETE,
            "Call this when the user's task is done, after you have said what came of it.",
        ),
        tool(
            ASK_QUESTION,
            "Call this to wait for the user's answer, after you have asked a question that you can't go on without.",
        ),
    ]
}
