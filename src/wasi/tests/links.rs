//! Symbolic and hard links, and the walk of a path.

use super::*;

#[test]
fn links_are_followed_from_where_they_are() {
    let mut wasi = wasi();
    wasi.mkdir("tmp/d").unwrap();
    wasi.put("tmp/d/a", b"a").unwrap();
    wasi.ln("d/a", "tmp/relative").unwrap();
    wasi.ln("../tmp/./d", "tmp/up").unwrap();
    wasi.ln("/tmp/d", "tmp/absolute").unwrap();
    wasi.ln(ZIP, "tmp/zip").unwrap();
    assert_eq!(wasi.text("tmp/relative").unwrap(), "a");
    assert_eq!(wasi.text("tmp/up/a").unwrap(), "a");
    assert_eq!(wasi.text("tmp/absolute/a").unwrap(), "a");
    assert_eq!(wasi.text("tmp/zip").unwrap(), "the archive");
    assert_eq!(wasi.text("tmp/absolute/../relative").unwrap(), "a");
    assert_eq!(wasi.readlink(PREOPEN, b"tmp/up"), Ok(&b"../tmp/./d"[..]));
    assert_eq!(wasi.readlink(PREOPEN, b"tmp/d"), Err(Errno::Inval));
    let link = wasi.path_filestat(PREOPEN, b"tmp/up", false).unwrap();
    assert_eq!(link.filetype, Filetype::SymbolicLink);
    assert_eq!(link.size, 10);
    // With a slash, what it leads to is meant.
    let directory = wasi.path_filestat(PREOPEN, b"tmp/up/", false).unwrap();
    assert_eq!(directory.filetype, Filetype::Directory);
    assert_eq!(wasi.kind("tmp/relative/"), Err(Errno::Notdir));
}

#[test]
fn loops_end() {
    let mut wasi = wasi();
    wasi.ln("b", "tmp/a").unwrap();
    wasi.ln("a", "tmp/b").unwrap();
    wasi.ln("self/x", "tmp/self").unwrap();
    assert_eq!(wasi.kind("tmp/a"), Err(Errno::Loop));
    assert_eq!(wasi.kind("tmp/self"), Err(Errno::Loop));
    assert_eq!(wasi.at("tmp/a", WRITE), Err(Errno::Loop));
    assert_eq!(wasi.mkdir("tmp/a/x"), Err(Errno::Loop));
    // Links that each lead to the next twice would take 2^n steps without a cap on links.
    wasi.ln("/tmp", "tmp/l0").unwrap();
    for n in 1..30 {
        let target = format!("/tmp/l{}/l{}", n - 1, n - 1);
        wasi.ln(&target, &format!("tmp/l{n}")).unwrap();
    }
    assert_eq!(wasi.kind("tmp/l3"), Ok(Filetype::Directory));
    assert_eq!(wasi.kind("tmp/l29"), Err(Errno::Loop));
    wasi.rm("tmp/a").unwrap();
}

#[test]
fn a_dangling_link_is_created_through_but_not_exclusively() {
    let mut wasi = wasi();
    wasi.ln("target", "tmp/link").unwrap();
    assert_eq!(wasi.kind("tmp/link"), Err(Errno::Noent));
    let exclusive = OpenOptions {
        oflags: oflags::CREAT | oflags::EXCL,
        ..WRITE
    };
    assert_eq!(wasi.at("tmp/link", exclusive), Err(Errno::Exist));
    let unfollowed = wasi.open(PREOPEN, b"tmp/link", false, READ);
    assert_eq!(unfollowed, Err(Errno::Loop));
    wasi.put("tmp/link", b"x").unwrap();
    assert_eq!(wasi.text("tmp/target").unwrap(), "x");
    // A link cannot make what may not be made.
    wasi.ln("/usr/new", "tmp/out").unwrap();
    assert_eq!(wasi.at("tmp/out", WRITE), Err(Errno::Rofs));
    wasi.ln("../../../usr/new", "tmp/out2").unwrap();
    assert_eq!(wasi.at("tmp/out2", WRITE), Err(Errno::Rofs));
}

#[test]
fn a_hard_link_is_one_more_name() {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"x").unwrap();
    wasi.hard("tmp/a", "tmp/b").unwrap();
    assert_eq!(wasi.hard("tmp/a", "tmp/b"), Err(Errno::Exist));
    wasi.put("tmp/b", b"y").unwrap();
    assert_eq!(wasi.text("tmp/a").unwrap(), "y");
    let (a, b) = (
        wasi.path_filestat(PREOPEN, b"tmp/a", true).unwrap(),
        wasi.path_filestat(PREOPEN, b"tmp/b", true).unwrap(),
    );
    assert_eq!((a.ino, a.nlink), (b.ino, 2));
    wasi.rm("tmp/a").unwrap();
    assert_eq!(wasi.text("tmp/b").unwrap(), "y");
    assert_eq!(wasi.tree.scratch.quota().files(), 1);
    wasi.mkdir("tmp/d").unwrap();
    assert_eq!(wasi.hard("tmp/d", "tmp/e"), Err(Errno::Perm));
}

#[test]
fn paths_have_limits() {
    let mut wasi = wasi();
    let name = "n".repeat(255);
    wasi.put(&format!("tmp/{name}"), b"").unwrap();
    assert_eq!(wasi.kind(&format!("tmp/{name}n")), Err(Errno::Nametoolong));
    let long = "tmp/".to_owned() + &"./".repeat(3000);
    assert_eq!(wasi.kind(&long), Err(Errno::Nametoolong));
    assert_eq!(wasi.kind(&long[..4096]), Ok(Filetype::Directory));
    assert_eq!(
        wasi.kind(&("/".repeat(4000) + "tmp")),
        Ok(Filetype::Directory)
    );
    assert_eq!(wasi.kind(&"/".repeat(4000)), Ok(Filetype::Directory));
    assert_eq!(wasi.kind("tmp/a\0b"), Err(Errno::Inval));
    assert_eq!(wasi.ln("", "tmp/l"), Err(Errno::Noent));
    assert_eq!(wasi.ln(&"x".repeat(4097), "tmp/l"), Err(Errno::Nametoolong));
    // Names are bytes.
    wasi.symlink(b"\xff\xfe", PREOPEN, b"tmp/\xff").unwrap();
    assert_eq!(wasi.readlink(PREOPEN, b"tmp/\xff"), Ok(&b"\xff\xfe"[..]));
}

#[test]
fn a_descriptor_of_a_directory_is_a_start() {
    let mut wasi = wasi();
    wasi.mkdir("tmp/d").unwrap();
    let fd = wasi.at("tmp/d", READ).unwrap();
    wasi.create_directory(fd, b"e").unwrap();
    let made = wasi.open(fd, b"e/a", true, WRITE).unwrap();
    wasi.write(made, b"x").unwrap();
    assert_eq!(wasi.text("tmp/d/e/a").unwrap(), "x");
    assert_eq!(
        wasi.path_filestat(fd, b"../../tmp/d/e/a", true)
            .unwrap()
            .size,
        1
    );
    assert_eq!(wasi.open(made, b"x", true, READ), Err(Errno::Notdir));
    assert_eq!(wasi.fdstat(made).unwrap().rights_inheriting, 0);
}
