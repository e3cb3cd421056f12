//! Renaming.

use super::*;

fn tree() -> Wasi {
    let mut wasi = wasi();
    wasi.put("tmp/a", b"a").unwrap();
    wasi.put("tmp/b", b"b").unwrap();
    wasi.mkdir("tmp/d").unwrap();
    wasi.mkdir("tmp/d/sub").unwrap();
    wasi.mkdir("tmp/empty").unwrap();
    wasi
}

#[test]
fn a_file_moves_and_replaces() {
    let mut wasi = tree();
    wasi.mv("tmp/a", "tmp/d/moved").unwrap();
    assert_eq!(wasi.text("tmp/d/moved").unwrap(), "a");
    assert_eq!(wasi.kind("tmp/a"), Err(Errno::Noent));
    let before = wasi.tree.scratch.quota().files();
    wasi.mv("tmp/d/moved", "tmp/b").unwrap();
    assert_eq!(wasi.text("tmp/b").unwrap(), "a");
    assert_eq!(wasi.tree.scratch.quota().files(), before - 1);
    wasi.mv("tmp/b", "tmp/b").unwrap();
    assert_eq!(wasi.text("tmp/b").unwrap(), "a");
    assert_eq!(wasi.mv("tmp/none", "tmp/b"), Err(Errno::Noent));
    assert_eq!(wasi.mv("tmp/b", "tmp/none/b"), Err(Errno::Noent));
}

#[test]
fn a_replaced_file_that_is_open_lives_on() {
    let mut wasi = tree();
    let fd = wasi.at("tmp/b", READ).unwrap();
    wasi.mv("tmp/a", "tmp/b").unwrap();
    let mut content = [0];
    assert_eq!(wasi.read(fd, &mut content), Ok(1));
    assert_eq!(&content, b"b");
}

#[test]
fn a_directory_moves_with_what_is_in_it() {
    let mut wasi = tree();
    wasi.put("tmp/d/sub/f", b"f").unwrap();
    wasi.mv("tmp/d/sub/", "tmp/empty/").unwrap();
    assert_eq!(wasi.text("tmp/empty/f").unwrap(), "f");
    assert_eq!(wasi.text("tmp/empty/../b").unwrap(), "b");
    wasi.mv("tmp/empty", "tmp/d/new").unwrap();
    assert_eq!(wasi.text("tmp/d/new/../new/f").unwrap(), "f");
}

#[test]
fn types_must_fit() {
    let mut wasi = tree();
    assert_eq!(wasi.mv("tmp/a", "tmp/empty"), Err(Errno::Isdir));
    assert_eq!(wasi.mv("tmp/empty", "tmp/a"), Err(Errno::Notdir));
    assert_eq!(wasi.mv("tmp/empty", "tmp/d"), Err(Errno::Notempty));
    assert_eq!(wasi.mv("tmp/a", "tmp/new/"), Err(Errno::Notdir));
    assert_eq!(wasi.mv("tmp/d/.", "tmp/new"), Err(Errno::Inval));
    assert_eq!(wasi.mv("tmp/d", "tmp/empty/."), Err(Errno::Inval));
    wasi.mv("tmp/empty", "tmp/new/").unwrap();
    assert_eq!(wasi.kind("tmp/new"), Ok(Filetype::Directory));
}

#[test]
fn a_directory_cannot_move_into_itself() {
    let mut wasi = tree();
    assert_eq!(wasi.mv("tmp/d", "tmp/d/x"), Err(Errno::Inval));
    assert_eq!(wasi.mv("tmp/d", "tmp/d/sub/x"), Err(Errno::Inval));
    assert_eq!(wasi.mv("tmp/d", "tmp/d/sub"), Err(Errno::Inval));
    assert_eq!(wasi.mv("tmp/d/sub", "tmp/d"), Err(Errno::Notempty));
    wasi.mv("tmp/d", "tmp/d").unwrap();
    assert_eq!(wasi.kind("tmp/d/sub"), Ok(Filetype::Directory));
}

#[test]
fn two_names_of_one_file_both_stay() {
    let mut wasi = tree();
    wasi.hard("tmp/a", "tmp/c").unwrap();
    wasi.mv("tmp/a", "tmp/c").unwrap();
    assert_eq!(wasi.text("tmp/a").unwrap(), "a");
    assert_eq!(wasi.text("tmp/c").unwrap(), "a");
}

#[test]
fn a_link_moves_as_a_link() {
    let mut wasi = tree();
    wasi.ln("a", "tmp/link").unwrap();
    wasi.mv("tmp/link", "tmp/link2").unwrap();
    assert_eq!(wasi.readlink(PREOPEN, b"tmp/link2"), Ok(&b"a"[..]));
    wasi.mv("tmp/b", "tmp/link2").unwrap();
    assert_eq!(wasi.text("tmp/a").unwrap(), "a");
    assert_eq!(wasi.text("tmp/link2").unwrap(), "b");
}
