//! Taking the snapshot: CPython starts, installs the prelude, imports, and is frozen as it is.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use wasmtime::{Engine, Store};

use super::{
    abi::{Answer, Guest, GuestState, HostCalls},
    error::ImageError,
    prelude,
    runtime::Runtime,
};
use crate::wasi::{MemoryBudget, Output, ScratchLimits, Stream, Wasi};

/// The epoch never reaches this: a build runs until it ends.
const NO_DEADLINE: u64 = u64::MAX / 2;

/// What the guest printed is kept up to this many bytes, for the error message.
const OUTPUT_KEPT: usize = 16 << 10;

/// The beginning of the bootstrap's call that names the objects of the snapshot; their addresses
/// follow, 32 bits each.
const IMMORTAL: &[u8] = b"immortal";

/// The reference count that CPython gives objects that live for ever, on 32-bit machines
/// (Include/refcount.h, `_Py_IMMORTAL_INITIAL_REFCNT`).
const IMMORTAL_COUNT: u32 = 5 << 28;

/// What a mortal object may be counted to. The first word of a block that was freed meanwhile is 0 or
/// a pointer, and pointers lie above the 16 MiB of stack at the bottom of the memory.
const PLAUSIBLE_COUNTS: Range<u32> = 1..1 << 20;

/// Gives objects that live as long as the snapshot a reference count that CPython leaves alone, and
/// returns how many.
///
/// A run that only looks at an object would otherwise write to its reference count, and with that
/// copy a page of the snapshot: most of what a short run costs.
fn make_immortal(memory: &mut [u8], addresses: &[u8]) -> usize {
    let (addresses, _) = addresses.as_chunks::<4>();
    let mut made = 0;
    for address in addresses {
        let start = u32::from_le_bytes(*address) as usize;
        let Some(count) = memory
            .get_mut(start..)
            .and_then(|rest| rest.first_chunk_mut::<4>())
        else {
            continue;
        };
        if PLAUSIBLE_COUNTS.contains(&u32::from_le_bytes(*count)) {
            *count = IMMORTAL_COUNT.to_le_bytes();
            made += 1;
        }
    }
    made
}

/// The scratch of a build has its own limit; no other run competes with it.
struct Unlimited;

impl MemoryBudget for Unlimited {
    fn reserve(&self, _: u64) -> bool {
        true
    }

    fn release(&self, _: u64) {}
}

struct BuildState {
    wasi: Wasi,
    host_calls: Arc<dyn HostCalls>,
}

impl GuestState for BuildState {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }

    fn host_calls(&self) -> &Arc<dyn HostCalls> {
        &self.host_calls
    }

    fn answer_in_memory(&mut self, memory: &mut [u8], frame: Range<usize>) -> Option<Vec<u8>> {
        if !memory[frame.clone()].starts_with(IMMORTAL) {
            return None;
        }
        let addresses = memory[frame][IMMORTAL.len()..].to_vec();
        Some(make_immortal(memory, &addresses).to_string().into_bytes())
    }
}

/// Answers every call with the frame that the bootstrap asks for.
struct BuildCalls(Vec<u8>);

impl HostCalls for BuildCalls {
    fn call(&self, _request: &[u8]) -> Answer {
        let frame = self.0.clone();
        Box::pin(async move { frame })
    }
}

#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Output for Printed {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        let mut kept = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let excess = kept.len().saturating_sub(OUTPUT_KEPT);
        kept.drain(..excess);
    }
}

/// Starts CPython, imports `preimports` and returns a state module that holds it all.
pub(super) async fn take(
    engine: &Engine,
    runtime: &Runtime,
    preimports: &[String],
) -> Result<Vec<u8>, ImageError> {
    let printed = Printed::default();
    let failed = |reason: String, printed: &Printed| {
        let output = printed
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        ImageError::Snapshot {
            reason,
            output: String::from_utf8_lossy(&output).trim().to_owned(),
        }
    };
    let scratch = ScratchLimits {
        bytes: 64 << 20,
        files: 1000,
        open_files: 256,
    };
    let wasi = Wasi::new(
        runtime.library()?,
        scratch,
        Box::new(printed.clone()),
        Arc::new(Unlimited),
        Box::new(|| Duration::ZERO),
    );
    let frame = prelude::build_frame(preimports).to_string().into_bytes();
    let mut store = Store::new(
        engine,
        BuildState {
            wasi,
            host_calls: Arc::new(BuildCalls(frame)),
        },
    );
    store.set_epoch_deadline(NO_DEADLINE);
    let guest = Guest::link(engine, runtime.code(engine)?)?;
    let instance = guest
        .instantiate(&mut store, &runtime.initial_state(engine)?)
        .await?;
    instance
        .initialize(&mut store)
        .await
        .map_err(|error| failed(format!("CPython did not start: {error:#}"), &printed))?;
    match instance.turn(&mut store, prelude::BOOTSTRAP).await {
        Ok(0) => Ok(instance.snapshot(&mut store, &runtime.globals())),
        Ok(status) => Err(failed(
            format!("the bootstrap ended with status {status}"),
            &printed,
        )),
        Err(error) => Err(failed(
            format!("the bootstrap trapped: {error:#}"),
            &printed,
        )),
    }
}
