//! `cargo bench --bench agent`: the same task by one program and tool by tool, for README.md.

#[path = "../tests/support/agents.rs"]
mod agents;
#[path = "../tests/support/scenario.rs"]
mod scenario;
#[path = "../tests/support/toolchain.rs"]
mod toolchain;

use scenario::{Took, Way, work};

/// How long the model takes until it begins to answer (seconds).
const WAIT: f64 = 1.0;

fn main() {
    println!(
        "| | model turns | tokens read | tokens written | time |\n| --- | --- | --- | --- | --- |"
    );
    for (what, way) in [
        ("one program (code mode)", Way::Code),
        (
            "`--direct`, calls together where they can be",
            Way::DirectTogether,
        ),
        ("`--direct`, one call a turn", Way::DirectOneByOne),
    ] {
        let Took {
            turns,
            read,
            written,
            milliseconds,
            ..
        } = work(way, WAIT);
        println!(
            "| {what} | {turns} | {read} | {written} | {:.1} s |",
            milliseconds / 1e3
        );
    }
}
