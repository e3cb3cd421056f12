//! Tools that say something before they answer.
#![expect(
    deprecated,
    reason = "logging is deprecated from 2026-07-28 on; the suites ask for it in every revision"
)]

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, Tool,
    },
    service::{RequestContext, ServiceError},
};
use serde_json::json;

use crate::{
    answer::{failure, plain, text},
    fixtures::Fixtures,
};

/// Between two things that are said.
const PAUSE: Duration = Duration::from_millis(50);

/// The tools.
pub fn tools() -> Vec<Tool> {
    vec![
        plain("test_tool_with_logging", "Logs three messages"),
        plain("test_logging_tool", "Logs a message, if it is asked to"),
        plain("test_tool_with_progress", "Reports its progress"),
        plain("test_reconnection", "Takes a moment"),
    ]
}

/// The answer, if the tool is one of these.
pub async fn call(
    fixtures: &Fixtures,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let told = match &*request.name {
        "test_tool_with_logging" => {
            let steps = [
                "execution started",
                "processing data",
                "execution completed",
            ];
            log(fixtures, context, &steps).await
        }
        "test_logging_tool" => log(fixtures, context, &["was called"]).await,
        "test_tool_with_progress" => report(context).await,
        "test_reconnection" => {
            // The suite would come back for the answer if the server closed the stream meanwhile.
            // That is a server's choice; callgate leaves streams open.
            tokio::time::sleep(PAUSE).await;
            Ok(())
        }
        _ => return None,
    };
    Some(match told {
        Ok(()) => text("all was said"),
        Err(error) => failure(format!("the client can't be told: {error}")),
    })
}

/// From 2026-07-28 on, a request says what it wants to hear, and hears nothing if it does not say.
async fn log(
    fixtures: &Fixtures,
    context: &RequestContext<RoleServer>,
    steps: &[&str],
) -> Result<(), ServiceError> {
    let level = context.meta.log_level().or_else(|| fixtures.level());
    let is_wanted = level.is_some_and(|level| level as u8 <= LoggingLevel::Info as u8);
    if !is_wanted {
        return Ok(());
    }
    for step in steps {
        let message = json!(format!("Tool {step}"));
        let params = LoggingMessageNotificationParam::new(LoggingLevel::Info, message);
        context.peer.notify_logging_message(params).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn report(context: &RequestContext<RoleServer>) -> Result<(), ServiceError> {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let params = ProgressNotificationParam::new(token, progress).with_total(100.0);
            context.peer.notify_progress(params).await?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
