//! The functions of `wasi_snapshot_preview1`.
//!
//! Each is a plain function of the guest's memory and its [`Wasi`]; this file gives them to a linker.
//! A call that fails changes nothing, except that a read or write in pieces stops at the piece.

pub(super) mod fd;
pub(super) mod path;
mod poll;
pub(super) mod process;

use wasmtime::{Caller, Extern, Linker, Memory};

use super::Wasi;
use super::errno::Errno;
use super::guest::Guest;

const MODULE: &str = "wasi_snapshot_preview1";

/// The guest has called `proc_exit`. The call that ran the guest returns it as its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exit with code {0}")]
pub struct ProcExit(pub i32);

/// Links each function under its own name.
macro_rules! link {
    ($linker:ident, $get:ident, $($module:ident::$name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            $linker.func_wrap(
                MODULE,
                stringify!($name),
                move |mut caller: Caller<'_, T>, $($argument: $kind),*| {
                    call(&mut caller, $get, |guest, wasi| $module::$name(guest, wasi, $($argument),*))
                },
            )?;
        )*
    };
}

/// Gives a linker all of preview 1. `get` finds the state of the run in the store's data.
///
/// `poll_oneoff` and `sched_yield` are asynchronous: call the guest with `call_async`, in a tokio
/// runtime that has its timer enabled.
///
/// # Errors
/// Fails if the linker has one of the functions already.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> &mut Wasi,
) -> wasmtime::Result<()> {
    link! { linker, get,
        process::args_get(pointers: u32, buffer: u32);
        process::args_sizes_get(count: u32, size: u32);
        process::environ_get(pointers: u32, buffer: u32);
        process::environ_sizes_get(count: u32, size: u32);
        process::clock_res_get(clock: u32, answer: u32);
        process::clock_time_get(clock: u32, precision: u64, answer: u32);
        process::random_get(buffer: u32, len: u32);
        process::proc_raise(signal: u32);
        process::sock_accept(fd: u32, flags: u32, answer: u32);
        process::sock_recv(fd: u32, list: u32, count: u32, flags: u32, len: u32, out_flags: u32);
        process::sock_send(fd: u32, list: u32, count: u32, flags: u32, answer: u32);
        process::sock_shutdown(fd: u32, how: u32);
        fd::fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
        fd::fd_allocate(fd: u32, offset: u64, len: u64);
        fd::fd_close(fd: u32);
        fd::fd_datasync(fd: u32);
        fd::fd_fdstat_get(fd: u32, answer: u32);
        fd::fd_fdstat_set_flags(fd: u32, flags: u32);
        fd::fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
        fd::fd_filestat_get(fd: u32, answer: u32);
        fd::fd_filestat_set_size(fd: u32, size: u64);
        fd::fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
        fd::fd_pread(fd: u32, list: u32, count: u32, offset: u64, answer: u32);
        fd::fd_prestat_dir_name(fd: u32, buffer: u32, len: u32);
        fd::fd_prestat_get(fd: u32, answer: u32);
        fd::fd_pwrite(fd: u32, list: u32, count: u32, offset: u64, answer: u32);
        fd::fd_read(fd: u32, list: u32, count: u32, answer: u32);
        fd::fd_readdir(fd: u32, buffer: u32, len: u32, cookie: u64, answer: u32);
        fd::fd_renumber(from: u32, to: u32);
        fd::fd_seek(fd: u32, delta: i64, whence: u32, answer: u32);
        fd::fd_sync(fd: u32);
        fd::fd_tell(fd: u32, answer: u32);
        fd::fd_write(fd: u32, list: u32, count: u32, answer: u32);
        path::path_create_directory(fd: u32, path: u32, len: u32);
        path::path_filestat_get(fd: u32, flags: u32, path: u32, len: u32, answer: u32);
        path::path_filestat_set_times(
            fd: u32, flags: u32, path: u32, len: u32, atim: u64, mtim: u64, times: u32
        );
        path::path_link(
            old_fd: u32, flags: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32
        );
        path::path_open(
            fd: u32, flags: u32, path: u32, len: u32, oflags: u32, base: u64, inheriting: u64,
            fdflags: u32, answer: u32
        );
        path::path_readlink(fd: u32, path: u32, len: u32, buffer: u32, buffer_len: u32, used: u32);
        path::path_remove_directory(fd: u32, path: u32, len: u32);
        path::path_rename(fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
        path::path_symlink(old: u32, old_len: u32, fd: u32, new: u32, new_len: u32);
        path::path_unlink_file(fd: u32, path: u32, len: u32);
    }
    linker.func_wrap(MODULE, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(ProcExit(code).into())
    })?;
    linker.func_wrap_async(MODULE, "sched_yield", |_: Caller<'_, T>, (): ()| {
        Box::new(async {
            tokio::task::yield_now().await;
            0_i32
        })
    })?;
    poll::add_to_linker(linker, get)
}

/// Runs one call on the caller's memory and state, and turns its result into an errno.
fn call<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: fn(&mut T) -> &mut Wasi,
    body: impl FnOnce(&mut Guest<'_>, &mut Wasi) -> Result<(), Errno>,
) -> wasmtime::Result<i32> {
    let memory = memory(caller)?;
    let (bytes, data) = memory.data_and_store_mut(caller);
    Ok(errno(body(&mut Guest::new(bytes), get(data))))
}

fn memory<T: 'static>(caller: &mut Caller<'_, T>) -> wasmtime::Result<Memory> {
    caller
        .get_export("memory")
        .and_then(Extern::into_memory)
        .ok_or_else(|| wasmtime::Error::msg("the guest exports no memory"))
}

fn errno(result: Result<(), Errno>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error.code().into(),
    }
}

/// Flags are 16 bits wide and come as 32; the guest's compiler clears the rest.
fn flags(value: u32) -> Result<u16, Errno> {
    u16::try_from(value).map_err(|_| Errno::Inval)
}
