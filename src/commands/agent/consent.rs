//! Asks the user before a tool with side effects is called.

use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use crate::agent::{Approve, Decision, ToolUse};

/// A call that waits for the user's word.
pub(super) struct Wish {
    /// The call.
    pub(super) call: ToolUse,
    /// Who waits; nobody any more, if the call was given up.
    pub(super) answer: oneshot::Sender<Decision>,
}

/// The user's consent: whoever shows what happens asks for it, after what led to the question.
pub(super) struct Consent {
    wishes: mpsc::UnboundedSender<Wish>,
    has_person: bool,
}

impl Consent {
    /// `has_person`: somebody is there to ask.
    pub(super) fn new(has_person: bool) -> (Self, mpsc::UnboundedReceiver<Wish>) {
        let (wishes, asked) = mpsc::unbounded_channel();
        let consent = Self { wishes, has_person };
        (consent, asked)
    }

    async fn ask(&self, call: &ToolUse) -> Decision {
        if !self.has_person {
            return Decision::Deny(format!(
                "`{}.{}` may change something and nobody is there to allow it; the user can start the agent with --yes",
                call.server, call.tool
            ));
        }
        let (answer, answered) = oneshot::channel();
        let call = call.clone();
        let _ = self.wishes.send(Wish { call, answer });
        let denied = || Decision::Deny("the user does not allow this call".to_owned());
        answered.await.unwrap_or_else(|_| denied())
    }
}

impl Approve for Consent {
    fn decide<'a>(&'a self, call: &'a ToolUse) -> BoxFuture<'a, Decision> {
        self.ask(call).boxed()
    }

    fn takes_time(&self) -> bool {
        self.has_person
    }
}
