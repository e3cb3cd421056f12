//! Files that are read again when they change.

use std::{path::PathBuf, time::Duration};

/// How often the files are looked at. Looking works for every way of replacing a file (renames,
/// links of mounted secrets), which waiting for events of a folder does not.
const INTERVAL: Duration = Duration::from_secs(1);

/// Calls `changed` whenever the content of one of the files is not what it was.
pub fn watch(paths: Vec<PathBuf>, changed: impl Fn() + Send + 'static) {
    let look = move || -> Vec<Option<Vec<u8>>> {
        paths.iter().map(|path| std::fs::read(path).ok()).collect()
    };
    let mut seen = look();
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(INTERVAL);
        loop {
            interval.tick().await;
            let now = look();
            // A file that is gone for a moment is being replaced.
            if now != seen && now.iter().all(Option::is_some) {
                seen = now;
                changed();
            }
        }
    });
}
