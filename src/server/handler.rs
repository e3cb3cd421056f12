//! The MCP server: its tools, answered by the sandbox.
#![expect(
    deprecated,
    reason = "logging is deprecated from 2026-07-28 on; clients of every revision may still ask for it"
)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
        CompleteResult, CustomNotification, CustomRequest, CustomResult, ErrorCode,
        ExtensionCapabilities, Implementation, ListPromptsRequestMethod, ListPromptsResult,
        ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
        ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, LoggingLevel,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, SetLevelRequestParams, Tool,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Map;

use super::{
    message::CALL_METHOD,
    request::{Caller, Request},
    road::Hearing,
    schema,
    service::Service,
};

/// The MCP server of one connection or session; cheap to clone, all clones are the same.
#[derive(Clone)]
pub struct Callgate {
    service: Arc<Service>,
    /// The least severe log messages that the client asked for, if it has asked.
    level: Arc<Mutex<Option<LoggingLevel>>>,
    /// Whether it answers tool calls.
    hearing: Arc<Hearing>,
}

impl Callgate {
    /// A server for one client.
    #[must_use]
    pub fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            level: Arc::default(),
            hearing: Arc::default(),
        }
    }

    /// The tools, the same for every client.
    fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![schema::run_python_code(&self.service.servers().names())];
        if self.service.settings.callbacks.allows_resumption() {
            tools.push(schema::resume_python_code());
        }
        tools
    }

    fn level(&self) -> MutexGuard<'_, Option<LoggingLevel>> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerHandler for Callgate {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_logging()
            .build();
        capabilities.extensions = Some(ExtensionCapabilities::from([(
            schema::CALLBACKS_EXTENSION.to_owned(),
            Map::new(),
        )]));
        let implementation =
            Implementation::new("callgate", env!("CARGO_PKG_VERSION")).with_title("callgate");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(schema::instructions(&self.service.servers().names()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.get_tool(&request.name) else {
            let tools = self.tools();
            let names: Vec<String> = tools
                .iter()
                .map(|tool| format!("`{}`", tool.name))
                .collect();
            let message = format!(
                "unknown tool `{}`; this server has {}",
                request.name,
                names.join(" and ")
            );
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let caller = Caller {
            level: context.meta.log_level().or(*self.level()),
            hearing: Arc::clone(&self.hearing),
            context,
        };
        let call = Request::new(&self.service, &tool.name, caller);
        if tool.name == schema::RESUME_PYTHON_CODE {
            return Ok(call.resume(arguments).await);
        }
        match request.request_state {
            Some(state) => {
                let responses = request.input_responses.unwrap_or_default();
                Ok(call.retry(state, responses).await)
            }
            None => Ok(call.run(arguments).await),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level() = Some(request.level);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = &request.method;
        // It ends up here, too, when it can't be read as what it says it is.
        if method == CALL_METHOD {
            let message =
                format!("the parameters of `{method}` are missing or not as the protocol has them");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("there is no method `{method}` here");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    // rmcp answers these with empty lists. But a server that answers them supports prompts, resources
    // and completions, and has to declare them; callgate has none.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleServer>,
    ) {
        tracing::debug!(
            "a notification that callgate does not know was dropped: {}",
            notification.method
        );
    }
}
