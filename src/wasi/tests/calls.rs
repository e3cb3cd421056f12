//! The calls, against a piece of memory instead of a guest.

use super::super::calls::{fd, path, process};
use super::super::guest::Guest;
use super::*;

const SIZE: u32 = 4096;

fn load(memory: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(memory[at..at + 4].try_into().unwrap())
}

fn place(memory: &mut [u8], at: usize, words: &[u32]) {
    for (index, word) in words.iter().enumerate() {
        memory[at + 4 * index..at + 4 * index + 4].copy_from_slice(&word.to_le_bytes());
    }
}

#[test]
fn a_gathered_write_and_a_scattered_read() {
    let mut memory = vec![0; SIZE as usize];
    let mut wasi = wasi();
    let file = wasi.at("tmp/a", WRITE).unwrap();
    memory[100..105].copy_from_slice(b"hello");
    place(&mut memory, 0, &[100, 5, 0, 0, 101, 2]);
    let mut guest = Guest::new(&mut memory);
    fd::fd_write(&mut guest, &mut wasi, file, 0, 3, 200).unwrap();
    assert_eq!(load(&memory, 200), 7);
    assert_eq!(wasi.text("tmp/a").unwrap(), "helloel");
    place(&mut memory, 0, &[300, 3, 400, 10]);
    let mut guest = Guest::new(&mut memory);
    fd::fd_pread(&mut guest, &mut wasi, file, 0, 2, 1, 200).unwrap();
    assert_eq!(load(&memory, 200), 6);
    assert_eq!(&memory[300..303], b"ell");
    assert_eq!(&memory[400..404], b"oel\0");
}

#[test]
fn bad_addresses_fault_before_anything_happens() {
    let mut memory = vec![0; SIZE as usize];
    let mut wasi = wasi();
    let file = wasi.at("tmp/a", WRITE).unwrap();
    place(&mut memory, 0, &[100, 5, SIZE - 1, 2]);
    place(&mut memory, 32, &[u32::MAX, u32::MAX]);
    memory[50..55].copy_from_slice(b"tmp/b");
    let mut guest = Guest::new(&mut memory);
    let guest = &mut guest;
    let wasi = &mut wasi;
    let fault = Err(Errno::Fault);
    assert_eq!(fd::fd_write(guest, wasi, file, 0, 2, 200), fault);
    assert_eq!(fd::fd_write(guest, wasi, file, 0, 1, SIZE - 3), fault);
    assert_eq!(fd::fd_write(guest, wasi, file, 32, 1, 200), fault);
    assert_eq!(fd::fd_write(guest, wasi, file, u32::MAX, 1, 200), fault);
    assert_eq!(fd::fd_read(guest, wasi, file, SIZE - 4, 1, 200), fault);
    assert_eq!(fd::fd_readdir(guest, wasi, 3, 1, SIZE, 0, 0), fault);
    assert_eq!(fd::fd_filestat_get(guest, wasi, 3, SIZE - 63), fault);
    assert_eq!(process::random_get(guest, wasi, 1, u32::MAX), fault);
    let all = u64::MAX;
    let open = path::path_open(guest, wasi, 3, 1, 50, 5, 1, all, all, 0, SIZE);
    assert_eq!(open, fault);
    assert_eq!(path::path_create_directory(guest, wasi, 3, SIZE, 1), fault);
    assert_eq!(wasi.kind("tmp/b"), Err(Errno::Noent));
    assert_eq!(wasi.filestat(file).unwrap().size, 0);
}

#[test]
fn buffers_cannot_ask_for_more_work_than_there_is_memory() {
    let mut memory = vec![0; SIZE as usize];
    place(&mut memory, 0, &[0, SIZE, 0, 1]);
    let mut wasi = wasi();
    let mut guest = Guest::new(&mut memory);
    let written = fd::fd_write(&mut guest, &mut wasi, 1, 0, 2, 200);
    assert_eq!(written, Err(Errno::Inval));
    let written = fd::fd_write(&mut guest, &mut wasi, 1, 0, 1025, 200);
    assert_eq!(written, Err(Errno::Inval));
}

#[test]
fn a_write_that_runs_into_the_cap_is_short() {
    let limits = ScratchLimits { bytes: 8, ..LIMITS };
    let mut memory = vec![0; SIZE as usize];
    let mut wasi = wasi_with(limits, 1 << 30).0;
    let file = wasi.at("tmp/a", WRITE).unwrap();
    place(&mut memory, 0, &[100, 5, 100, 5]);
    let mut guest = Guest::new(&mut memory);
    fd::fd_write(&mut guest, &mut wasi, file, 0, 2, 200).unwrap();
    let again = fd::fd_write(&mut guest, &mut wasi, file, 0, 2, 204);
    assert_eq!(again, Err(Errno::Nospc));
    assert_eq!(load(&memory, 200), 5);
}

#[test]
fn a_listing_is_cut_at_the_end_of_the_buffer() {
    let mut memory = vec![0; SIZE as usize];
    let mut wasi = wasi();
    let mut guest = Guest::new(&mut memory);
    fd::fd_readdir(&mut guest, &mut wasi, 3, 100, 60, 0, 0).unwrap();
    // "." and ".." take 25 and 26 bytes; the rest is the start of "dev".
    assert_eq!(load(&memory, 0), 60);
    assert_eq!(memory[124], b'.');
    assert_eq!(&memory[149..151], b"..");
    let mut guest = Guest::new(&mut memory);
    fd::fd_readdir(&mut guest, &mut wasi, 3, 100, 2000, 2, 0).unwrap();
    assert_eq!(load(&memory, 0), 3 * 24 + 9);
    assert_eq!(&memory[124..127], b"dev");
}

#[test]
fn the_preopened_directory_is_the_root() {
    let mut memory = vec![9; SIZE as usize];
    let mut wasi = wasi();
    let guest = &mut Guest::new(&mut memory);
    fd::fd_prestat_get(guest, &mut wasi, 3, 0).unwrap();
    fd::fd_prestat_dir_name(guest, &mut wasi, 3, 8, 1).unwrap();
    let short = fd::fd_prestat_dir_name(guest, &mut wasi, 3, 8, 0);
    assert_eq!(short, Err(Errno::Nametoolong));
    assert_eq!(fd::fd_prestat_get(guest, &mut wasi, 4, 0), Err(Errno::Badf));
    assert_eq!(fd::fd_prestat_get(guest, &mut wasi, 1, 0), Err(Errno::Badf));
    assert_eq!(&memory[..9], [0, 0, 0, 0, 1, 0, 0, 0, b'/']);
}

#[test]
fn strings_clocks_and_randomness() {
    let mut memory = vec![0; SIZE as usize];
    let environment: Arc<[String]> = ["A=1".to_owned(), "BC=".to_owned()].into();
    let start = Duration::from_secs(2);
    let mut wasi = wasi()
        .with_environment(environment)
        .with_monotonic_start(start);
    let guest = &mut Guest::new(&mut memory);
    process::environ_sizes_get(guest, &mut wasi, 0, 4).unwrap();
    process::environ_get(guest, &mut wasi, 8, 100).unwrap();
    process::args_sizes_get(guest, &mut wasi, 16, 20).unwrap();
    process::clock_time_get(guest, &mut wasi, 2, 0, 24).unwrap();
    process::clock_time_get(guest, &mut wasi, 1, 0, 32).unwrap();
    process::clock_time_get(guest, &mut wasi, 1, 0, 40).unwrap();
    let unknown = process::clock_time_get(guest, &mut wasi, 9, 0, 40);
    assert_eq!(unknown, Err(Errno::Inval));
    process::random_get(guest, &mut wasi, 1000, 3000).unwrap();
    assert_eq!(
        process::sock_shutdown(guest, &mut wasi, 3, 0),
        Err(Errno::Notsock)
    );
    assert_eq!(
        process::sock_shutdown(guest, &mut wasi, 9, 0),
        Err(Errno::Badf)
    );
    assert_eq!([load(&memory, 0), load(&memory, 4)], [2, 8]);
    assert_eq!([load(&memory, 8), load(&memory, 12)], [100, 104]);
    assert_eq!(&memory[100..108], b"A=1\0BC=\0");
    assert_eq!([load(&memory, 16), load(&memory, 20)], [0, 0]);
    assert_eq!(load(&memory, 24), 7_000_000);
    assert!(load(&memory, 40) >= load(&memory, 32));
    assert!(load(&memory, 32) >= 2_000_000_000);
    assert!(memory[3900..4000].iter().any(|byte| *byte != 0));
}
