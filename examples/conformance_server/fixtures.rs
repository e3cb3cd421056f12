//! The MCP server: every method there is, answered by the module that knows the fixture.
#![expect(
    deprecated,
    reason = "what is deprecated from 2026-07-28 on, the suites still ask for in older revisions"
)]

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
        GetSkillResult, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
        LoggingLevel, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse,
        RequestStateCodec, SealOptions, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
    task_manager::TaskManager,
};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    answer::plain,
    asking, content, jobs,
    lists::{self, Lists, Watcher},
    prompts, resources, rounds, skills, telling,
};

/// What outlives a request: from 2026-07-28 on, every request has a server of its own.
pub struct Shared {
    /// The tasks.
    pub tasks: TaskManager,
    lists: Lists,
    states: RequestStateCodec,
}

impl Shared {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let key = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
        Self {
            tasks: TaskManager::new(),
            lists: Lists::default(),
            states: RequestStateCodec::try_new(key.concat()).expect("the key is long enough"),
        }
    }

    /// Something for the client to keep, of use for this tool alone.
    pub fn seal(&self, tool: &str, state: &Value) -> String {
        let options = SealOptions::new().associated_data(tool.as_bytes());
        self.states
            .seal_with(state.to_string().as_bytes(), &options)
    }

    /// What the client kept.
    ///
    /// # Errors
    /// When it is not what the client was given.
    pub fn open(&self, tool: &str, sealed: &str) -> Result<Value, ErrorData> {
        let wrong = |problem: &dyn std::error::Error| {
            ErrorData::invalid_params(format!("requestState: {problem}"), None)
        };
        let state = self.states.open_with(sealed, tool.as_bytes());
        let state = state.map_err(|problem| wrong(&problem))?;
        serde_json::from_slice(&state).map_err(|problem| wrong(&problem))
    }
}

/// The server of one session or request.
#[derive(Clone)]
pub struct Fixtures {
    shared: Arc<Shared>,
    /// Made with the server, so before any subscription is acknowledged: no change is missed.
    watcher: Watcher,
    level: Arc<Mutex<Option<LoggingLevel>>>,
}

impl Fixtures {
    /// A server for one session or request.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            watcher: shared.lists.watch(),
            shared,
            level: Arc::default(),
        }
    }

    /// The least severe log messages that the session asked for.
    pub fn level(&self) -> Option<LoggingLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools(&self) -> Vec<Tool> {
        let more = self.shared.lists.has_tool();
        let more = more.then(|| plain("test_comes_and_goes", "Comes and goes"));
        [
            content::tools(),
            telling::tools(),
            asking::tools(),
            rounds::tools(),
            jobs::tools(),
            lists::tools(),
            more.into_iter().collect(),
        ]
        .concat()
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new(
            "callgate-conformance",
            env!("CARGO_PKG_VERSION"),
        ))
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
        let result = content::call(&request).or_else(|| self.shared.lists.call(&request));
        if let Some(result) = result {
            return Ok(result.into());
        }
        if let Some(result) = telling::call(self, &request, &context).await {
            return Ok(result.into());
        }
        if let Some(result) = asking::call(&request, &context).await {
            return Ok(result.into());
        }
        if let Some(answer) = rounds::call(&self.shared, &request, &context) {
            return answer;
        }
        if let Some(answer) = jobs::call(&self.shared, &request, &context).await {
            return answer;
        }
        let message = format!("there is no tool `{}`", request.name);
        Err(ErrorData::invalid_params(message, None))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = prompts::list(self.shared.lists.has_prompt());
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request, &context)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resources::templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri).map(Into::into)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::watch(&request.uri)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::watch(&request.uri)
    }

    /// rmcp takes out what the capabilities don't declare.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscriber: SubscriptionContext) -> Result<(), ErrorData> {
        self.watcher.clone().report(subscriber).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.lists.tell(context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        *level = Some(request.level);
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.shared
            .tasks
            .get_task(&request.task_id)
            .map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let UpdateTaskParams {
            task_id,
            input_responses,
            ..
        } = request;
        self.shared.tasks.update_task(&task_id, input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&request.task_id)
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(ListSkillsResult::with_all_items(vec![skills::skill()]))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        skills::get(&request.uri)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        skills::read_folder(&request.uri)
    }
}
