//! `callgate doctor`: what is there, what is missing, what to do about it.

use std::process::{Command, ExitCode};

use bytesize::ByteSize;

use super::{Options, image::condition as condition_word};
use crate::{
    image::{self, Condition, Package, Store, wasmtime_version},
    sandbox::{Budget, Sandbox},
};

/// Free space that a build needs, with some to spare (bytes).
const SPACE: u64 = 1 << 30;

/// Examines everything; the exit code is 1 if something needs doing.
pub(super) fn execute(options: &Options) -> ExitCode {
    let mut report = Report { problems: 0 };
    Report::fine("callgate", env!("CARGO_PKG_VERSION"));
    Report::fine("wasmtime", wasmtime_version());
    Report::fine("runtime", Package::pinned().requirement);
    kernel();
    pip(options);
    match Store::open(options.cache()) {
        Ok(store) => cache(&mut report, &store, options),
        Err(error) => report.problem("cache", &error.to_string()),
    }
    if report.problems == 0 {
        println!("everything is in order");
        return ExitCode::SUCCESS;
    }
    println!("{} to look at", report.problems);
    ExitCode::FAILURE
}

struct Report {
    problems: usize,
}

impl Report {
    fn fine(what: &str, text: &str) {
        println!("ok       {what}: {text}");
    }

    fn note(what: &str, text: &str) {
        println!("note     {what}: {text}");
    }

    fn problem(&mut self, what: &str, text: &str) {
        self.problems += 1;
        println!("PROBLEM  {what}: {text}");
    }
}

fn kernel() {
    let name = rustix::system::uname();
    Report::fine(
        "kernel",
        &format!(
            "{} {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy()
        ),
    );
    if Sandbox::has_pagemap_scan() {
        Report::fine(
            "PAGEMAP_SCAN",
            "available: instances are recycled without page faults",
        );
    } else {
        Report::note(
            "PAGEMAP_SCAN",
            "not available (Linux 6.7 has it): fresh runs are about a third slower",
        );
    }
    Report::fine(
        "memory",
        &format!(
            "runs together may use {} (--max-total-memory)",
            ByteSize(Budget::half_of_machine())
        ),
    );
}

fn pip(options: &Options) {
    let python = options.python().display().to_string();
    let output = Command::new(options.python())
        .args(["-m", "pip", "--version"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Report::fine("pip", String::from_utf8_lossy(&output.stdout).trim());
        }
        Ok(output) => Report::note(
            "pip",
            &format!(
                "`{python} -m pip` fails ({}): needed only to build an image; --wheel FILE does without",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        ),
        Err(error) => Report::note(
            "pip",
            &format!(
                "`{python}` does not start ({error}): needed only to build an image; name another with --python, or use --wheel FILE"
            ),
        ),
    }
}

fn cache(report: &mut Report, store: &Store, options: &Options) {
    Report::fine("cache", &store.root().display().to_string());
    match store.free_space() {
        Ok(free) if free >= SPACE => Report::fine("free space", &ByteSize(free).to_string()),
        Ok(free) => report.problem(
            "free space",
            &format!(
                "{}: building an image needs {}",
                ByteSize(free),
                ByteSize(SPACE)
            ),
        ),
        Err(error) => report.problem("free space", &error.to_string()),
    }
    let images = match image::list(store, true) {
        Ok(images) => images,
        Err(error) => return report.problem("images", &error.to_string()),
    };
    for image in &images {
        let text = format!(
            "{} ({})",
            condition_word(image.condition),
            ByteSize(image.bytes)
        );
        let name = format!("image {}", image.name);
        match image.condition {
            Condition::Ready => Report::fine(&name, &text),
            Condition::Outdated | Condition::Incomplete => Report::note(
                &name,
                &format!("{text}: it is rebuilt when it is next used"),
            ),
            Condition::Damaged => {
                report.problem(
                    &name,
                    &format!(
                        "{text}: run `callgate image build --force --name {}`",
                        image.name
                    ),
                );
            }
        }
    }
    let wanted = options.image();
    if !images.iter().any(|image| image.name == wanted) {
        Report::note(
            &format!("image {wanted}"),
            "not built yet: the first use builds it (about a minute), or `callgate image build`",
        );
    }
}
