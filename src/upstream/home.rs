//! The runtime on which servers live: calls come from the threads of guests too, whose runtime has no input and
//! output, and a server outlives the call that started it.

use std::sync::OnceLock;

use tokio::{runtime::Handle, task::JoinHandle};

/// Where tasks of servers run.
#[derive(Debug, Default)]
pub struct Home(OnceLock<Handle>);

impl Home {
    /// Tasks run on the runtime of whoever calls this first.
    pub fn settle(&self) {
        let _ = self.0.set(Handle::current());
    }

    /// Starts a task.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.get_or_init(Handle::current).spawn(task)
    }
}
