//! The MCP server: one tool, answered by the sandbox.
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

use super::{message::CALL_METHOD, request::Request, schema, service::Service};

/// The MCP server of one connection or session; cheap to clone, all clones are the same.
#[derive(Clone)]
pub struct Callgate {
    service: Arc<Service>,
    /// The least severe log messages that the client asked for, if it has asked.
    level: Arc<Mutex<Option<LoggingLevel>>>,
}

impl Callgate {
    /// A server for one client.
    #[must_use]
    pub fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            level: Arc::default(),
        }
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
            .with_instructions(schema::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            schema::run_python_code(),
        ]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == schema::RUN_PYTHON_CODE).then(schema::run_python_code)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != schema::RUN_PYTHON_CODE {
            let message = format!(
                "unknown tool `{}`; this server has `{}`",
                request.name,
                schema::RUN_PYTHON_CODE
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let level = context.meta.log_level().or(*self.level());
        let request = Request::new(&self.service, level, context);
        Ok(request.answer(arguments).await.into())
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
