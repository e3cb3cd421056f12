//! Promise: twenty calls over three servers take two turns of the model in one program, and all the same calls are made
//! one by one.

mod support {
    pub mod agents;
    pub mod scenario;
    pub mod toolchain;
}

use support::scenario::{CALLS, Way, work};

#[test]
fn one_program_does_what_takes_many_turns() {
    let code = work(Way::Code, 0.0);
    let together = work(Way::DirectTogether, 0.0);
    let one_by_one = work(Way::DirectOneByOne, 0.0);
    for took in [&code, &together, &one_by_one] {
        assert_eq!(took.calls, CALLS);
    }
    assert_eq!((code.turns, together.turns, one_by_one.turns), (2, 5, 21));
    assert!(code.read < together.read && together.read < one_by_one.read);
    assert!(code.written < together.written);
}
