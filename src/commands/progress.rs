//! A bar on standard error while an image is built.

use std::{sync::Mutex, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::image::progress::{Reporter, Step};

/// Shows steps as they happen, and how long each took.
pub struct Bar {
    bar: Mutex<Option<ProgressBar>>,
}

impl Bar {
    /// A bar that appears with the first step.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bar: Mutex::new(None),
        }
    }

    fn begin() -> ProgressBar {
        let bar = ProgressBar::new(Step::WORK.len() as u64);
        // The template is a constant: if it were wrong, the plain style would do.
        let style =
            ProgressStyle::with_template("{spinner} [{bar:20}] {pos}/{len} {msg} ({elapsed})");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.bar
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Reporter for Bar {
    fn started(&self, step: Step) {
        let mut bar = self.lock();
        let bar = bar.get_or_insert_with(Self::begin);
        let position = Step::WORK
            .iter()
            .position(|other| *other == step)
            .unwrap_or(0);
        bar.set_position(position as u64);
        bar.set_message(step.label());
        if bar.is_hidden() {
            eprintln!("callgate: {} ...", step.label());
        }
    }

    fn finished(&self, step: Step, took: Duration) {
        let line = format!("{}: {:.1} s", step.label(), took.as_secs_f64());
        match self.lock().as_ref() {
            Some(bar) if !bar.is_hidden() => bar.println(line),
            _ => eprintln!("callgate: {line}"),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.lock().take() {
            bar.finish_and_clear();
        }
    }
}
