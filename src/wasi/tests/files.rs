//! Content, caps and descriptors.

use super::super::file::Whence;
use super::super::quota::NODE_BYTES;
use super::super::stat::{Times, fdflags, rights};
use super::*;

#[test]
fn a_file_is_written_and_read_back() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"hello").unwrap();
    assert_eq!(wasi.text("tmp/a").unwrap(), "hello");
    let stat = wasi.path_filestat(PREOPEN, b"tmp/a", true).unwrap();
    assert_eq!((stat.size, stat.nlink), (5, 1));
    assert_eq!(stat.filetype, Filetype::RegularFile);
    assert!(stat.mtim > 0);
}

#[test]
fn a_hole_reads_as_zeros_and_is_charged() {
    let mut wasi = wasi();
    let fd = wasi.at("tmp/sparse", WRITE).unwrap();
    assert_eq!(wasi.seek(fd, 1000, Whence::Start).unwrap(), 1000);
    assert_eq!(wasi.read(fd, &mut [0; 8]), Ok(0));
    wasi.write(fd, b"x").unwrap();
    let mut content = [1; 1001];
    assert_eq!(wasi.pread(fd, 0, &mut content), Ok(1001));
    assert!(content[..1000].iter().all(|byte| *byte == 0));
    assert_eq!(content[1000], b'x');
    assert_eq!(wasi.tree.scratch.quota().bytes(), 1001);
}

#[test]
fn a_write_far_out_is_refused_and_allocates_nothing() {
    let mut wasi = wasi();
    let fd = wasi.at("tmp/far", WRITE).unwrap();
    assert_eq!(wasi.pwrite(fd, 1 << 62, b"x"), Err(Errno::Nospc));
    assert_eq!(wasi.pwrite(fd, i64::MAX as u64, b"x"), Err(Errno::Fbig));
    assert_eq!(wasi.pwrite(fd, u64::MAX, b"x"), Err(Errno::Fbig));
    assert_eq!(wasi.set_size(fd, 1 << 62), Err(Errno::Nospc));
    assert_eq!(wasi.set_size(fd, u64::MAX), Err(Errno::Fbig));
    assert_eq!(wasi.allocate(fd, u64::MAX, 2), Err(Errno::Fbig));
    assert_eq!(wasi.allocate(fd, 0, 1 << 40), Err(Errno::Nospc));
    assert_eq!(wasi.tree.scratch.quota().bytes(), 0);
    assert_eq!(wasi.filestat(fd).unwrap().size, 0);
}

#[test]
fn seeking_is_checked_for_overflow() {
    let mut wasi = wasi();
    let fd = wasi.at("tmp/a", WRITE).unwrap();
    wasi.write(fd, b"abc").unwrap();
    assert_eq!(wasi.seek(fd, -1, Whence::End), Ok(2));
    assert_eq!(wasi.seek(fd, -3, Whence::Current), Err(Errno::Inval));
    assert_eq!(wasi.seek(fd, i64::MAX, Whence::Start), Ok(i64::MAX as u64));
    assert_eq!(wasi.seek(fd, 1, Whence::Current), Err(Errno::Inval));
    assert_eq!(wasi.seek(fd, i64::MAX, Whence::Current), Err(Errno::Inval));
    assert_eq!(wasi.seek(fd, i64::MIN, Whence::Start), Err(Errno::Inval));
    assert_eq!(wasi.write(fd, b"x"), Err(Errno::Fbig));
    assert_eq!(wasi.read(fd, &mut [0; 1]), Ok(0));
}

#[test]
fn the_byte_cap_holds_to_the_last_byte() {
    let (mut wasi, budget) = wasi_with(LIMITS, 1 << 30);
    let fd = wasi.at("tmp/full", WRITE).unwrap();
    let piece = [7; 1000];
    let mut written = 0;
    while wasi.write(fd, &piece).is_ok() {
        written += piece.len() as u64;
        assert!(wasi.tree.scratch.quota().bytes() <= LIMITS.bytes);
    }
    assert!(
        LIMITS.bytes - written < 1000,
        "spare room must not eat the cap"
    );
    let rest = usize::try_from(LIMITS.bytes - written).unwrap();
    wasi.write(fd, &piece[..rest]).unwrap();
    assert_eq!(wasi.write(fd, b"x"), Err(Errno::Nospc));
    assert_eq!(wasi.put("tmp/other", b"x"), Err(Errno::Nospc));
    assert_eq!(budget.used(), LIMITS.bytes + 2 * NODE_BYTES);
    wasi.set_size(fd, 0).unwrap();
    wasi.put("tmp/other", b"x").unwrap();
    drop(wasi);
    assert_eq!(budget.used(), 0);
}

#[test]
fn cutting_a_file_gives_its_bytes_back() {
    let mut wasi = wasi();
    let fd = wasi.at("tmp/a", WRITE).unwrap();
    wasi.write(fd, &vec![1; 500_000]).unwrap();
    wasi.set_size(fd, 10).unwrap();
    assert_eq!(wasi.tree.scratch.quota().bytes(), 10);
    assert_eq!(wasi.text("tmp/a").unwrap(), "\u{1}".repeat(10));
    // Longer again: what was cut off is gone.
    wasi.set_size(fd, 12).unwrap();
    assert!(wasi.text("tmp/a").unwrap().ends_with("\u{1}\0\0"));
}

#[test]
fn the_budget_of_the_process_is_a_cap_too() {
    let (mut wasi, budget) = wasi_with(LIMITS, 2 * NODE_BYTES + 100);
    wasi.put("tmp/a", &[0; 100]).unwrap();
    wasi.put("tmp/b", b"").unwrap();
    assert_eq!(wasi.put("tmp/a", &[0; 101]), Err(Errno::Nospc));
    assert_eq!(wasi.put("tmp/b", b"x"), Err(Errno::Nospc));
    assert_eq!(wasi.mkdir("tmp/c"), Err(Errno::Nospc));
    wasi.rm("tmp/a").unwrap();
    wasi.mkdir("tmp/c").unwrap();
    drop(wasi);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_node_cap_counts_files_directories_links_and_names() {
    let limits = ScratchLimits { files: 4, ..LIMITS };
    let mut wasi = wasi_with(limits, 1 << 30).0;
    wasi.put("tmp/file", b"x").unwrap();
    wasi.mkdir("tmp/directory").unwrap();
    wasi.ln("file", "tmp/symlink").unwrap();
    wasi.hard("tmp/file", "tmp/name").unwrap();
    assert_eq!(wasi.put("tmp/more", b""), Err(Errno::Nospc));
    assert_eq!(wasi.mkdir("tmp/more"), Err(Errno::Nospc));
    assert_eq!(wasi.ln("file", "tmp/more"), Err(Errno::Nospc));
    assert_eq!(wasi.hard("tmp/file", "tmp/more"), Err(Errno::Nospc));
    for path in ["tmp/file", "tmp/name", "tmp/symlink"] {
        wasi.rm(path).unwrap();
    }
    wasi.rmdir("tmp/directory").unwrap();
    assert_eq!(wasi.tree.scratch.quota().files(), 0);
    assert_eq!(wasi.tree.scratch.quota().bytes(), 0);
}

#[test]
fn a_removed_file_lives_while_it_is_open() {
    let mut wasi = wasi();
    let fd = wasi.at("tmp/a", WRITE).unwrap();
    wasi.write(fd, b"still here").unwrap();
    wasi.rm("tmp/a").unwrap();
    assert_eq!(wasi.kind("tmp/a"), Err(Errno::Noent));
    let mut content = [0; 10];
    assert_eq!(wasi.pread(fd, 0, &mut content), Ok(10));
    assert_eq!(&content, b"still here");
    assert_eq!(wasi.filestat(fd).unwrap().nlink, 0);
    // A new file of that name is another file.
    wasi.put("tmp/a", b"new").unwrap();
    assert_eq!(wasi.filestat(fd).unwrap().size, 10);
    wasi.rm("tmp/a").unwrap();
    assert!(wasi.tree.scratch.quota().bytes() >= 10);
    wasi.close(fd).unwrap();
    assert_eq!(wasi.tree.scratch.quota().bytes(), 0);
    assert_eq!(wasi.tree.scratch.quota().files(), 0);
}

#[test]
fn open_flags_do_what_they_say() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"abc").unwrap();
    let with = |oflags| OpenOptions { oflags, ..WRITE };
    let exclusive = with(oflags::CREAT | oflags::EXCL);
    assert_eq!(wasi.at("tmp/a", exclusive), Err(Errno::Exist));
    assert_eq!(wasi.at("tmp/none", with(0)), Err(Errno::Noent));
    assert_eq!(
        wasi.at("tmp/a", with(oflags::DIRECTORY)),
        Err(Errno::Notdir)
    );
    assert_eq!(wasi.at("tmp", with(0)), Err(Errno::Isdir));
    assert_eq!(wasi.at("tmp/a/", READ), Err(Errno::Notdir));
    assert_eq!(wasi.at("tmp/none/", WRITE), Err(Errno::Isdir));
    assert_eq!(wasi.at("tmp/a/b", WRITE), Err(Errno::Notdir));
    assert_eq!(wasi.at("", READ), Err(Errno::Noent));
    let fd = wasi.at("tmp/a", with(oflags::TRUNC)).unwrap();
    assert_eq!(wasi.filestat(fd).unwrap().size, 0);
}

#[test]
fn appending_goes_to_the_end_wherever_one_is() {
    let mut wasi = wasi();
    wasi.put("tmp/log", b"one").unwrap();
    let append = OpenOptions {
        fdflags: fdflags::APPEND,
        ..WRITE
    };
    let fd = wasi.at("tmp/log", append).unwrap();
    wasi.seek(fd, 0, Whence::Start).unwrap();
    wasi.write(fd, b" two").unwrap();
    assert_eq!(wasi.text("tmp/log").unwrap(), "one two");
    wasi.set_fdflags(fd, 0).unwrap();
    wasi.seek(fd, 0, Whence::Start).unwrap();
    wasi.write(fd, b"1").unwrap();
    assert_eq!(wasi.text("tmp/log").unwrap(), "1ne two");
}

#[test]
fn access_is_as_it_was_opened() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"abc").unwrap();
    let reading = wasi.at("tmp/a", READ).unwrap();
    assert_eq!(wasi.write(reading, b"x"), Err(Errno::Badf));
    assert_eq!(wasi.pwrite(reading, 0, b"x"), Err(Errno::Badf));
    assert_eq!(wasi.set_size(reading, 0), Err(Errno::Badf));
    assert_eq!(
        wasi.fdstat(reading).unwrap().rights_base & rights::FD_WRITE,
        0
    );
    let write_only = OpenOptions {
        read: false,
        ..WRITE
    };
    let writing = wasi.at("tmp/a", write_only).unwrap();
    assert_eq!(wasi.read(writing, &mut [0; 1]), Err(Errno::Badf));
    assert_eq!(
        wasi.fdstat(writing).unwrap().rights_base & rights::FD_READ,
        0
    );
    let directory = wasi.at("tmp", READ).unwrap();
    assert_eq!(wasi.read(directory, &mut [0; 1]), Err(Errno::Isdir));
    wasi.set_rights(writing, 0, 0).unwrap();
    assert_eq!(wasi.write(writing, b"x"), Err(Errno::Badf));
    assert_eq!(
        wasi.set_rights(reading, rights::ALL, 0),
        Err(Errno::Notcapable)
    );
}

#[test]
fn descriptors_are_capped_and_the_lowest_is_used_again() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"abc").unwrap();
    let fds: Vec<Fd> = (0..8).map(|_| wasi.at("tmp/a", READ).unwrap()).collect();
    assert_eq!(fds, (4..12).collect::<Vec<Fd>>());
    assert_eq!(wasi.at("tmp/a", READ), Err(Errno::Mfile));
    // Refused before anything happens.
    let truncate = OpenOptions {
        oflags: oflags::CREAT | oflags::TRUNC,
        ..WRITE
    };
    assert_eq!(wasi.at("tmp/a", truncate), Err(Errno::Mfile));
    assert_eq!(wasi.at("tmp/b", WRITE), Err(Errno::Mfile));
    assert_eq!(wasi.kind("tmp/b"), Err(Errno::Noent));
    assert_eq!(wasi.filestat(4).unwrap().size, 3);
    wasi.close(9).unwrap();
    wasi.close(5).unwrap();
    assert_eq!(wasi.close(5), Err(Errno::Badf));
    assert_eq!(wasi.at("tmp/a", READ), Ok(5));
    assert_eq!(wasi.at("tmp/a", READ), Ok(9));
}

#[test]
fn the_first_descriptors_can_be_closed() {
    let mut wasi = wasi();
    for fd in 0..4 {
        wasi.close(fd).unwrap();
        assert_eq!(wasi.close(fd), Err(Errno::Badf));
    }
    assert_eq!(wasi.write(1, b"x"), Err(Errno::Badf));
    assert_eq!(wasi.at("tmp", READ), Err(Errno::Badf));
    assert_eq!(wasi.close(u32::MAX), Err(Errno::Badf));
}

#[test]
fn renumbering_moves_over_an_open_descriptor() {
    let mut wasi = wasi();
    let first = wasi.at("tmp/a", WRITE).unwrap();
    let second = wasi.at("tmp/b", WRITE).unwrap();
    wasi.write(first, b"first").unwrap();
    wasi.rm("tmp/b").unwrap();
    assert_eq!(wasi.renumber(first, 99), Err(Errno::Badf));
    wasi.renumber(first, first).unwrap();
    wasi.renumber(first, second).unwrap();
    assert_eq!(wasi.check(first), Err(Errno::Badf));
    assert_eq!(wasi.filestat(second).unwrap().size, 5);
    // What was there is closed: its removed file is gone.
    assert_eq!(wasi.tree.scratch.quota().files(), 1);
    wasi.renumber(second, 1).unwrap();
    wasi.write(1, b"!").unwrap();
    assert_eq!(wasi.text("tmp/a").unwrap(), "first!");
}

#[test]
fn streams_are_neither_terminals_nor_seekable() {
    let mut wasi = wasi();
    assert_eq!(wasi.read(0, &mut [0; 9]), Ok(0));
    assert_eq!(wasi.write(0, b"x"), Err(Errno::Badf));
    assert_eq!(wasi.read(1, &mut [0; 9]), Err(Errno::Badf));
    assert_eq!(wasi.seek(1, 0, Whence::Current), Err(Errno::Spipe));
    assert_eq!(wasi.pread(0, 0, &mut [0; 1]), Err(Errno::Spipe));
    assert_eq!(wasi.set_size(1, 0), Err(Errno::Spipe));
    for fd in 0..3 {
        let fdstat = wasi.fdstat(fd).unwrap();
        assert_eq!(fdstat.filetype, Filetype::Unknown);
        assert_eq!(fdstat.rights_base & (rights::FD_SEEK | rights::FD_TELL), 0);
    }
    assert_eq!(wasi.path_filestat(1, b"a", true), Err(Errno::Notdir));
}

#[test]
fn what_is_printed_goes_to_its_stream() {
    let printed = Printed::default();
    let mut wasi = wasi_printing(LIMITS, 0, printed.clone()).0;
    wasi.write(1, b"out").unwrap();
    wasi.write(2, b"err").unwrap();
    assert_eq!(*printed.0.lock().unwrap(), "Stdout: out;Stderr: err;");
}

#[test]
fn times_are_kept_and_set() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"x").unwrap();
    let before = wasi.path_filestat(PREOPEN, b"tmp/a", true).unwrap();
    let times = Times {
        atim: None,
        mtim: Some(5),
    };
    wasi.path_set_times(PREOPEN, b"tmp/a", true, times).unwrap();
    let after = wasi.path_filestat(PREOPEN, b"tmp/a", true).unwrap();
    assert_eq!((after.atim, after.mtim), (before.atim, 5));
    assert!(after.ctim >= before.ctim);
    wasi.put("tmp/a", b"y").unwrap();
    let written = wasi.path_filestat(PREOPEN, b"tmp/a", true).unwrap();
    assert!(written.mtim >= before.mtim);
}
