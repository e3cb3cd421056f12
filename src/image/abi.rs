//! The guest's ABI: how a CPython built as a reactor is linked, instantiated and called.
//!
//! The guest imports WASI preview 1 and `host.call(ptr, len, out_ptr_ptr, out_len_ptr) -> i32`,
//! and exports `memory`, `host_alloc(len) -> ptr` and `turn(ptr, len) -> i32`, which executes
//! source text from a buffer of `host_alloc`. Any CPython with this ABI can be an image.

use std::{future::Future, ops::Range, pin::Pin, sync::Arc};

use wasmtime::{
    AsContextMut, Caller, Engine, Extern, Global, Instance, Linker, Memory, Module, Result, Store,
    TypedFunc, Val, bail, error::Context as _,
};

use super::split::{self, MEMORY_EXPORT, STATE_MODULE};
use crate::wasi::{self, Wasi};

/// The answer to a host call, under way.
pub type Answer = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// The host's side of `host.call`: bytes to bytes.
pub trait HostCalls: Send + Sync {
    /// Answers one call. The request is guest memory: read what is needed of it before returning.
    fn call(&self, request: &[u8]) -> Answer;
}

/// What a store must hold to run a guest.
pub trait GuestState: Send + 'static {
    /// The guest's WASI.
    fn wasi(&mut self) -> &mut Wasi;
    /// Who answers the guest's host calls.
    fn host_calls(&self) -> &Arc<dyn HostCalls>;
    /// Answers a call that is about the guest's memory itself; `frame` lies in `memory`.
    fn answer_in_memory(&mut self, _memory: &mut [u8], _frame: Range<usize>) -> Option<Vec<u8>> {
        None
    }
}

/// `host.call` returns this when the answer could not be handed over: the guest has no memory left.
const NO_ROOM: i32 = -2;
/// `host.call` returns this when the request does not lie in the guest's memory.
const BAD_REQUEST: i32 = -3;

/// The code of a guest, ready to be given a state and run.
pub struct Guest<S: 'static> {
    code: Module,
    linker: Linker<S>,
    /// The code's imports in order: the module and the name of each.
    imports: Vec<(String, String)>,
}

/// One guest in a store.
pub struct GuestInstance {
    memory: Memory,
    globals: Vec<Global>,
    code: Instance,
    host_alloc: TypedFunc<u32, u32>,
    turn: TypedFunc<(u32, u32), i32>,
}

impl<S: GuestState> Guest<S> {
    /// Links `code` against WASI and the host call.
    ///
    /// # Errors
    /// When callgate's own functions can't be defined.
    pub fn link(engine: &Engine, code: Module) -> Result<Self> {
        let mut linker = Linker::new(engine);
        wasi::add_to_linker(&mut linker, S::wasi)?;
        linker.func_wrap_async(
            "host",
            "call",
            |caller: Caller<'_, S>, frame: (u32, u32, u32, u32)| Box::new(host_call(caller, frame)),
        )?;
        let imports: Vec<_> = code
            .imports()
            .map(|i| (i.module().to_owned(), i.name().to_owned()))
            .collect();
        Ok(Self {
            code,
            linker,
            imports,
        })
    }

    /// A new guest in `store`, whose memory and globals are as `state` has them.
    ///
    /// # Errors
    /// When the pool has no room for another instance, the code imports something that callgate does
    /// not offer, or state and code don't fit.
    pub async fn instantiate(&self, store: &mut Store<S>, state: &Module) -> Result<GuestInstance> {
        let state = Instance::new_async(&mut *store, state, &[]).await?;
        let mut imports = Vec::with_capacity(self.imports.len());
        for (module, name) in &self.imports {
            imports.push(if module == STATE_MODULE {
                state
                    .get_export(&mut *store, name)
                    .with_context(|| format!("the state has no `{name}`"))?
            } else {
                self.linker.get(&mut *store, module, name)?
            });
        }
        let code = Instance::new_async(&mut *store, &self.code, &imports).await?;
        let memory = state
            .get_memory(&mut *store, MEMORY_EXPORT)
            .context("the state has no memory")?;
        let globals = imports
            .iter()
            .filter_map(|import| import.clone().into_global())
            .collect();
        let host_alloc = code.get_typed_func(&mut *store, "host_alloc")?;
        let turn = code.get_typed_func(&mut *store, "turn")?;
        Ok(GuestInstance {
            memory,
            globals,
            code,
            host_alloc,
            turn,
        })
    }
}

impl GuestInstance {
    /// Starts a guest whose state is fresh from the compiler: libc, then CPython.
    ///
    /// # Errors
    /// When the guest traps.
    pub async fn initialize<S: Send>(&self, store: &mut Store<S>) -> Result<()> {
        for name in ["_initialize", "wizer.initialize"] {
            let start = self.code.get_typed_func::<(), ()>(&mut *store, name)?;
            start.call_async(&mut *store, ()).await?;
        }
        Ok(())
    }

    /// Executes `source` in the guest and returns `turn`'s status (0 is success).
    ///
    /// # Errors
    /// When the guest traps, exits or has no memory for the source.
    pub async fn turn<S: Send>(&self, store: &mut Store<S>, source: &str) -> Result<i32> {
        let length = u32::try_from(source.len())?;
        let pointer = self.host_alloc.call_async(&mut *store, length).await?;
        if pointer == 0 {
            bail!("the guest has no memory for its source");
        }
        self.memory
            .write(&mut *store, pointer as usize, source.as_bytes())?;
        self.turn.call_async(&mut *store, (pointer, length)).await
    }

    /// A state module that holds the guest as it is now; `initial` gives the types of its globals.
    #[must_use]
    pub fn snapshot<S: Send>(&self, store: &mut Store<S>, initial: &[split::Global]) -> Vec<u8> {
        let mut globals = initial.to_vec();
        for (global, live) in globals.iter_mut().zip(&self.globals) {
            match live.get(&mut *store) {
                Val::I32(value) => global.value = i64::from(value),
                Val::I64(value) => global.value = value,
                _ => {}
            }
        }
        split::state_module(self.memory.data(&*store), &globals)
    }
}

async fn host_call<S: GuestState>(
    mut caller: Caller<'_, S>,
    (request, length, pointer_at, length_at): (u32, u32, u32, u32),
) -> Result<i32> {
    let Some(memory) = caller
        .get_export(MEMORY_EXPORT)
        .and_then(Extern::into_memory)
    else {
        bail!("the guest exports no memory");
    };
    let answer_at = (pointer_at, length_at);
    let answer = {
        let (data, state) = memory.data_and_store_mut(&mut caller);
        let start = request as usize;
        let frame = start..start.saturating_add(length as usize);
        if data.get(frame.clone()).is_none() {
            return Ok(BAD_REQUEST);
        }
        match state.answer_in_memory(data, frame.clone()) {
            Some(answer) => return hand_over(&mut caller, memory, &answer, answer_at).await,
            None => state.host_calls().call(&data[frame]),
        }
    };
    let answer = answer.await;
    hand_over(&mut caller, memory, &answer, answer_at).await
}

/// Writes an answer into memory that the guest allocates for it.
async fn hand_over<S: GuestState>(
    caller: &mut Caller<'_, S>,
    memory: Memory,
    answer: &[u8],
    (answer_pointer, answer_length): (u32, u32),
) -> Result<i32> {
    let Ok(size) = u32::try_from(answer.len()) else {
        return Ok(NO_ROOM);
    };
    let allocate = caller
        .get_export("host_alloc")
        .and_then(Extern::into_func)
        .context("no host_alloc")?;
    let allocate = allocate.typed::<u32, u32>(caller.as_context_mut())?;
    let pointer = allocate.call_async(&mut *caller, size).await?;
    if pointer == 0 {
        return Ok(NO_ROOM);
    }
    let written = memory
        .write(&mut *caller, pointer as usize, answer)
        .and_then(|()| {
            memory.write(
                &mut *caller,
                answer_pointer as usize,
                &pointer.to_le_bytes(),
            )
        })
        .and_then(|()| memory.write(&mut *caller, answer_length as usize, &size.to_le_bytes()));
    Ok(if written.is_ok() { 0 } else { BAD_REQUEST })
}
