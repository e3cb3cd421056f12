//! The engine settings that compiled code depends on.
//!
//! They are part of an image's key: changing one makes every compiled image outdated. What does
//! not change compiled code (how instances are allocated) is the sandbox's to choose.

use std::hash::{Hash, Hasher};

use wasmtime::{Config, Engine, Strategy};

/// Wasm stack in bytes. CPython's own recursion limit is reached well before it is used up.
const WASM_STACK: usize = 8 << 20;

/// Stack of one fiber in bytes: the wasm stack plus room for a host call made at its very bottom.
const FIBER_STACK: usize = 12 << 20;

/// A snapshot is one dense block of memory and is mapped whole, however large it is (bytes).
const LARGEST_STATE: u64 = 4 << 30;

/// The settings under which code is compiled and run.
#[must_use]
pub fn configuration() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .wasm_exceptions(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(LARGEST_STATE)
        // Nobody reads addresses or native frames of the guest's code: leaving them out makes the
        // image smaller and its compilation faster.
        .generate_address_map(false)
        .native_unwind_info(false)
        .wasm_backtrace_max_frames(None);
    config
}

/// A hash of everything about an engine that its compiled code depends on: wasmtime's version, its
/// settings, the target and its CPU features.
#[must_use]
pub fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// FNV-1a: the standard library promises no hash that stays the same from build to build.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
