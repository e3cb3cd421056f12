//! The tools of a server.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use rmcp::{
    RoleClient,
    model::{PaginatedRequestParams, Tool},
    service::{Peer, ServiceError},
};

/// Pages that are asked for: a server may always say that there is one more.
const PAGES: usize = 100;

/// Tools that are kept of one server.
const TOOLS: usize = 2000;

/// And bytes of their descriptions and schemas.
const BYTES: usize = 8 << 20;

/// What a server has that may be used.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Its tools, in its order.
    pub tools: Arc<Vec<Tool>>,
    /// What was made of them.
    kept: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

impl Listing {
    /// Asks a server; keeps the tools of which `allows` says yes.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub async fn of(
        peer: &Peer<RoleClient>,
        allows: impl Fn(&str) -> bool,
    ) -> Result<Self, ServiceError> {
        let mut tools: Vec<Tool> = Vec::new();
        let mut bytes = 0;
        let mut cursor = None;
        for _ in 0..PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = peer.list_tools(Some(page)).await?;
            for tool in page.tools {
                bytes += serde_json::to_string(&tool).map_or(0, |text| text.len());
                if tools.len() == TOOLS || bytes > BYTES {
                    tracing::warn!(
                        "a server has more tools than are kept ({TOOLS}, {BYTES} bytes)"
                    );
                    return Ok(Self::new(tools));
                }
                let is_new = !tools.iter().any(|known| known.name == tool.name);
                if is_new && allows(&tool.name) {
                    tools.push(tool);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Self::new(tools))
    }

    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// What somebody makes of the tools, made once for as long as they are the server's.
    pub fn kept<T: Any + Send + Sync>(&self, make: impl Fn() -> T) -> Arc<T> {
        let kept = self.kept.get_or_init(|| Arc::new(make()));
        let kept = Arc::clone(kept).downcast();
        // Somebody else keeps something else here.
        kept.unwrap_or_else(|_| Arc::new(make()))
    }

    fn new(tools: Vec<Tool>) -> Self {
        Self {
            tools: Arc::new(tools),
            kept: Arc::default(),
        }
    }
}
