//! The sandbox, loaded in the background: the handshake never waits for an image to be built.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::settings::Settings;
use crate::{
    image::{
        Image, Store,
        progress::{Reporter, Step},
    },
    sandbox::Sandbox,
};

/// How far loading has come.
#[derive(Clone)]
pub enum Loading {
    /// What is being done; `None` before anything was begun.
    Working(Option<Step>),
    /// It is there.
    Ready(Arc<Sandbox>),
    /// It can't be had; why, and what to do.
    Failed(String),
}

/// A sandbox that is there or is on its way.
#[derive(Clone)]
pub struct Loader(watch::Receiver<Loading>);

impl Loader {
    /// Begins to load, on a thread of its own.
    #[must_use]
    pub fn start(settings: &Settings) -> Self {
        let (sender, receiver) = watch::channel(Loading::Working(None));
        let settings = settings.clone();
        std::thread::spawn(move || {
            let reporter = Announce(sender);
            let loaded = load(&settings, &reporter);
            // Nobody listens any more: the server has ended.
            let _ = reporter.0.send(match loaded {
                Ok(sandbox) => Loading::Ready(Arc::new(sandbox)),
                Err(error) => {
                    tracing::error!("no runtime image: {error}");
                    Loading::Failed(error.to_string())
                }
            });
        });
        Self(receiver)
    }

    /// Whether the sandbox is there.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn state(&self) -> Result<bool, String> {
        match &*self.0.borrow() {
            Loading::Working(_) => Ok(false),
            Loading::Ready(_) => Ok(true),
            Loading::Failed(reason) => Err(reason.clone()),
        }
    }

    /// The sandbox, if it is there.
    #[must_use]
    pub fn ready(&self) -> Option<Arc<Sandbox>> {
        match &*self.0.borrow() {
            Loading::Ready(sandbox) => Some(Arc::clone(sandbox)),
            _ => None,
        }
    }

    /// The sandbox, when it is there. `waiting` is called with each step on the way.
    ///
    /// # Errors
    /// Why it can't be had.
    pub async fn sandbox<F: Future<Output = ()>>(
        &self,
        mut waiting: impl FnMut(Step) -> F,
    ) -> Result<Arc<Sandbox>, String> {
        let mut receiver = self.0.clone();
        loop {
            let loading = receiver.borrow_and_update().clone();
            match loading {
                Loading::Ready(sandbox) => return Ok(sandbox),
                Loading::Failed(reason) => return Err(reason),
                Loading::Working(Some(step)) => waiting(step).await,
                Loading::Working(None) => {}
            }
            if receiver.changed().await.is_err() {
                return Err("loading the runtime image ended without a result".to_owned());
            }
        }
    }
}

struct Announce(watch::Sender<Loading>);

impl Reporter for Announce {
    fn started(&self, step: Step) {
        tracing::info!("{}", step.label());
        let _ = self.0.send(Loading::Working(Some(step)));
    }

    fn finished(&self, step: Step, took: Duration) {
        tracing::info!("{}: done in {:.1} s", step.label(), took.as_secs_f64());
    }
}

fn load(settings: &Settings, reporter: &dyn Reporter) -> Result<Sandbox, crate::image::ImageError> {
    let store = Store::open(settings.cache.clone())?;
    let image = Image::ensure(&store, &settings.recipe, reporter)?;
    Sandbox::new(&image, settings.capacity)
}
