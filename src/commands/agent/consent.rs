//! Asks the user before a tool with side effects is called.

use std::{collections::HashSet, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::Mutex;

use super::{keyboard::Keyboard, screen};
use crate::agent::{Approve, Decision, ToolUse, text};

/// Of the arguments, the user sees this much (characters).
const SHOWN: usize = 1500;

/// The user's consent, tool by tool.
pub(super) struct Consent {
    keyboard: Keyboard,
    /// Tools that need not be asked about any more; locked while a question is asked, so that there is one at a time.
    always: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Consent {
    pub(super) fn new(keyboard: Keyboard) -> Self {
        Self {
            keyboard,
            always: Arc::default(),
        }
    }

    async fn ask(&self, call: &ToolUse) -> Decision {
        let tool = (call.server.clone(), call.tool.clone());
        let mut always = self.always.lock().await;
        if always.contains(&tool) {
            return Decision::Allow;
        }
        if !self.keyboard.has_person() {
            return Decision::Deny(format!(
                "`{}.{}` may change something and nobody is there to allow it; the user can start the agent with --yes",
                call.server, call.tool
            ));
        }
        let warning = if call.is_destructive() {
            "may destroy something"
        } else {
            "changes something"
        };
        let arguments = screen::plain(&text::cut(&call.arguments.to_string(), SHOWN));
        eprintln!("\n{}.{} {warning}: {arguments}", call.server, call.tool);
        loop {
            let said = self
                .keyboard
                .ask("Call it? [y]es, [n]o, [a]lways: ", false)
                .await;
            match said.as_deref().map(str::trim) {
                Some("y" | "Y" | "yes") => return Decision::Allow,
                Some("a" | "A" | "always") => {
                    always.insert(tool);
                    return Decision::Allow;
                }
                Some("n" | "N" | "no" | "") | None => {
                    return Decision::Deny("the user does not allow this call".to_owned());
                }
                Some(_) => {}
            }
        }
    }
}

impl Approve for Consent {
    fn decide<'a>(&'a self, call: &'a ToolUse) -> BoxFuture<'a, Decision> {
        self.ask(call).boxed()
    }
}
