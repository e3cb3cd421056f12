//! Listing and removing directories.

use super::Filetype::{Directory, RegularFile, SymbolicLink};
use super::*;

#[test]
fn directories_are_removed_when_they_are_empty() {
    let mut wasi = wasi();
    wasi.mkdir("tmp/d").unwrap();
    assert_eq!(wasi.mkdir("tmp/d"), Err(Errno::Exist));
    assert_eq!(wasi.mkdir("tmp/none/d"), Err(Errno::Noent));
    wasi.put("tmp/d/a", b"").unwrap();
    assert_eq!(wasi.rmdir("tmp/d"), Err(Errno::Notempty));
    assert_eq!(wasi.rmdir("tmp/d/a"), Err(Errno::Notdir));
    assert_eq!(wasi.rm("tmp/d"), Err(Errno::Isdir));
    assert_eq!(wasi.rmdir("tmp/d/."), Err(Errno::Inval));
    assert_eq!(wasi.rm("tmp/d/b"), Err(Errno::Noent));
    wasi.rm("tmp/d/a").unwrap();
    wasi.rmdir("tmp/d/").unwrap();
    assert_eq!(wasi.kind("tmp/d"), Err(Errno::Noent));
}

#[test]
fn nothing_can_be_made_in_a_removed_directory() {
    let mut wasi = wasi();
    wasi.mkdir("tmp/d").unwrap();
    wasi.put("tmp/a", b"").unwrap();
    let fd = wasi.at("tmp/d", READ).unwrap();
    wasi.rmdir("tmp/d").unwrap();
    // Its place is taken by others, which must not be found through it.
    wasi.mkdir("tmp/e").unwrap();
    wasi.mkdir("tmp/f").unwrap();
    assert_eq!(wasi.open(fd, b"x", true, WRITE), Err(Errno::Noent));
    assert_eq!(wasi.create_directory(fd, b"x"), Err(Errno::Noent));
    assert_eq!(wasi.symlink(b"x", fd, b"x"), Err(Errno::Noent));
    assert_eq!(wasi.path_filestat(fd, b"..", true), Err(Errno::Noent));
    let moved = wasi.rename((PREOPEN, b"tmp/a"), (fd, b"a"));
    assert_eq!(moved, Err(Errno::Noent));
    let linked = wasi.link((PREOPEN, b"tmp/a"), false, (fd, b"a"));
    assert_eq!(linked, Err(Errno::Noent));
    let mut seen = 0;
    wasi.readdir(fd, 0, &mut |_| {
        seen += 1;
        true
    })
    .unwrap();
    assert_eq!(seen, 0);
    assert_eq!(wasi.tree.scratch.quota().files(), 4);
    wasi.close(fd).unwrap();
    assert_eq!(wasi.tree.scratch.quota().files(), 3);
}

#[test]
fn a_listing_has_types_and_its_own_numbers() {
    let mut wasi = wasi();
    wasi.put("tmp/file", b"").unwrap();
    wasi.mkdir("tmp/directory").unwrap();
    wasi.ln("x", "tmp/link").unwrap();
    let fd = wasi.at("tmp", READ).unwrap();
    let mut seen = Vec::new();
    wasi.readdir(fd, 0, &mut |entry| {
        seen.push((entry.name.to_vec(), entry.filetype, entry.ino));
        true
    })
    .unwrap();
    let types: Vec<_> = seen.iter().map(|(_, filetype, _)| *filetype).collect();
    assert_eq!(
        types,
        [Directory, Directory, RegularFile, Directory, SymbolicLink]
    );
    for (name, filetype, ino) in &seen {
        let stat = wasi.path_filestat(fd, name, false).unwrap();
        assert_eq!((stat.filetype, stat.ino), (*filetype, *ino));
    }
    let mut inos: Vec<_> = seen.iter().map(|(_, _, ino)| *ino).collect();
    inos.sort_unstable();
    inos.dedup();
    assert_eq!(inos.len(), seen.len());
}

#[test]
fn a_thousand_entries_are_removed_while_they_are_listed() {
    let mut wasi = wasi();
    wasi.mkdir("tmp/big").unwrap();
    for n in 0..1000 {
        wasi.put(&format!("tmp/big/{n}"), b"").unwrap();
    }
    let fd = wasi.at("tmp/big", READ).unwrap();
    let (mut cookie, mut removed) = (0, 0);
    loop {
        // Seven at a time, as a small buffer has them.
        let mut batch = Vec::new();
        wasi.readdir(fd, cookie, &mut |entry| {
            batch.push((entry.name.to_vec(), entry.next));
            batch.len() < 7
        })
        .unwrap();
        let Some((_, next)) = batch.last() else { break };
        cookie = *next;
        for (name, _) in batch {
            if name != b"." && name != b".." {
                wasi.unlink(fd, &name).unwrap();
                removed += 1;
            }
        }
    }
    assert_eq!(removed, 1000);
    wasi.rmdir("tmp/big").unwrap();
}

#[test]
fn any_cookie_is_safe() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"").unwrap();
    for path in [".", "tmp", "dev"] {
        let fd = wasi.at(path, READ).unwrap();
        for cookie in [1000, 1 << 40, u64::MAX - 1, u64::MAX] {
            let mut seen = 0;
            wasi.readdir(fd, cookie, &mut |_| {
                seen += 1;
                true
            })
            .unwrap();
            assert_eq!(seen, 0);
        }
    }
    let file = wasi.at("tmp/a", READ).unwrap();
    assert_eq!(wasi.readdir(file, 0, &mut |_| true), Err(Errno::Notdir));
    assert_eq!(wasi.readdir(1, 0, &mut |_| true), Err(Errno::Notdir));
}

#[test]
fn deep_trees_neither_recurse_nor_leak() {
    let limits = ScratchLimits {
        files: 100_000,
        ..LIMITS
    };
    let (mut wasi, budget) = wasi_with(limits, 1 << 30);
    let mut fd = wasi.at("tmp", READ).unwrap();
    for _ in 0..50_000 {
        wasi.create_directory(fd, b"d").unwrap();
        let next = wasi.open(fd, b"d", true, READ).unwrap();
        wasi.close(fd).unwrap();
        fd = next;
    }
    wasi.put("tmp/a", b"").unwrap();
    let moved = wasi.rename((PREOPEN, b"tmp/d"), (fd, b"x"));
    assert_eq!(moved, Err(Errno::Inval));
    drop(wasi);
    assert_eq!(budget.used(), 0);
}
