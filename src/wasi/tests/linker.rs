//! The calls from a guest: a few bytes of WebAssembly, written by hand.

use std::time::Instant;

use wasmtime::{Engine, Instance, Linker, Module, Store};

use super::super::{ProcExit, add_to_linker};
use super::*;

/// `(poll_oneoff 64 256 1 512)`, then `proc_exit` with its errno plus 5, from an exported `run`.
/// At 64 lies a subscription of 20 milliseconds of the monotonic clock.
fn guest(with_memory: bool) -> Vec<u8> {
    let module = b"wasi_snapshot_preview1";
    let import = |name: &[u8], kind: u8| {
        let parts: [&[u8]; 5] = [
            &[22],
            module,
            &[u8::try_from(name.len()).unwrap()],
            name,
            &[0, kind],
        ];
        parts.concat()
    };
    let section =
        |id: u8, body: &[u8]| [&[id, u8::try_from(body.len()).unwrap()][..], body].concat();
    let mut subscription = [0; 48];
    subscription[0] = 42;
    subscription[16] = 1;
    subscription[24..32].copy_from_slice(&20_000_000_u64.to_le_bytes());
    let code = [
        &[0, 0x41, 0xc0, 0, 0x41, 0x80, 2, 0x41, 1, 0x41, 0x80, 4][..],
        &[0x10, 0, 0x41, 5, 0x6a, 0x10, 1, 0x0b],
    ]
    .concat();
    let run: &[u8] = b"\x03run\x00\x02";
    let exports = if with_memory {
        [&[2][..], b"\x06memory\x02\x00", run].concat()
    } else {
        [&[1][..], run].concat()
    };
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(
            1,
            &[
                3, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 1, 0x7f, 0, 0x60, 0, 0,
            ],
        ),
        section(
            2,
            &[
                &[2][..],
                &import(b"poll_oneoff", 0),
                &import(b"proc_exit", 1),
            ]
            .concat(),
        ),
        section(3, &[1, 2]),
        section(5, &[1, 0, 1]),
        section(7, &exports),
        section(
            10,
            &[&[1, u8::try_from(code.len()).unwrap()][..], &code].concat(),
        ),
        section(
            11,
            &[&[1, 0, 0x41, 0xc0, 0, 0x0b, 48][..], &subscription].concat(),
        ),
    ]
    .concat()
}

async fn instantiate(with_memory: bool) -> (Store<Wasi>, Instance) {
    let engine = Engine::default();
    let module = Module::new(&engine, guest(with_memory)).unwrap();
    let mut linker = Linker::new(&engine);
    add_to_linker(&mut linker, |wasi: &mut Wasi| wasi).unwrap();
    let mut store = Store::new(&engine, wasi());
    let instance = linker.instantiate_async(&mut store, &module).await.unwrap();
    (store, instance)
}

#[tokio::test]
async fn a_guest_sleeps_and_exits() {
    let (mut store, instance) = instantiate(true).await;
    let run = instance
        .get_typed_func::<(), ()>(&mut store, "run")
        .unwrap();
    let started = Instant::now();
    let error = run.call_async(&mut store, ()).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ProcExit(5)));
    assert!(started.elapsed() >= Duration::from_millis(20));
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    let memory = memory.data(&store);
    assert_eq!((memory[256], memory[512]), (42, 1));
}

#[tokio::test]
async fn a_guest_without_memory_traps() {
    let (mut store, instance) = instantiate(false).await;
    let run = instance
        .get_typed_func::<(), ()>(&mut store, "run")
        .unwrap();
    let error = run.call_async(&mut store, ()).await.unwrap_err();
    assert!(format!("{error:?}").contains("exports no memory"));
}
