//! The read-only part.

use super::super::{LibraryBuilder, LibraryError};
use super::*;

#[test]
fn an_archive_is_a_file_and_a_directory() {
    let mut wasi = wasi();
    let zip = &ZIP[1..];
    assert_eq!(wasi.text(zip).unwrap(), "the archive");
    assert_eq!(wasi.kind(zip), Ok(Filetype::RegularFile));
    let data = format!("{zip}/matplotlib/mpl-data");
    assert_eq!(wasi.kind(&data), Ok(Filetype::Directory));
    assert_eq!(wasi.names(&data), [".", "..", "matplotlibrc"]);
    let rc = format!("{data}/matplotlibrc");
    assert_eq!(wasi.text(&rc).unwrap(), "backend: agg");
    assert_eq!(
        wasi.text(&format!("{data}/../mpl-data/matplotlibrc"))
            .unwrap(),
        "backend: agg"
    );
    assert_eq!(wasi.kind(&format!("{zip}/none")), Err(Errno::Noent));
    assert_eq!(wasi.kind(&format!("{zip}/")), Err(Errno::Notdir));
    let directory = OpenOptions {
        oflags: oflags::DIRECTORY,
        ..READ
    };
    assert_eq!(wasi.at(zip, directory), Err(Errno::Notdir));
    assert_eq!(wasi.kind(&format!("{rc}/x")), Err(Errno::Notdir));
}

#[test]
fn a_folder_on_the_way_to_data_in_an_archive_only_leads_on() {
    let wasi = wasi();
    let passage = format!("{}/matplotlib", &ZIP[1..]);
    assert_eq!(wasi.kind(&passage), Err(Errno::Notdir));
    assert_eq!(
        wasi.kind(&format!("{passage}/mpl-data/matplotlibrc")),
        Ok(Filetype::RegularFile)
    );
}

#[test]
fn nothing_but_the_scratch_can_be_written() {
    let mut wasi = wasi();
    let zip = &ZIP[1..];
    let inside = format!("{zip}/new");
    for path in [
        "new",
        "usr/new",
        "usr/local/lib/new",
        "dev/new",
        inside.as_str(),
    ] {
        assert_eq!(wasi.at(path, WRITE), Err(Errno::Rofs), "{path}");
        assert_eq!(wasi.mkdir(path), Err(Errno::Rofs), "{path}");
        assert_eq!(wasi.ln("x", path), Err(Errno::Rofs), "{path}");
    }
    wasi.put("tmp/a", b"x").unwrap();
    assert_eq!(wasi.at(zip, WRITE), Err(Errno::Rofs));
    let truncate = OpenOptions {
        oflags: oflags::TRUNC,
        ..READ
    };
    assert_eq!(wasi.at(zip, truncate), Err(Errno::Rofs));
    assert_eq!(wasi.rm(zip), Err(Errno::Rofs));
    assert_eq!(wasi.rmdir("usr"), Err(Errno::Rofs));
    assert_eq!(wasi.mv(zip, "tmp/b"), Err(Errno::Rofs));
    assert_eq!(wasi.mv("tmp/a", "usr/a"), Err(Errno::Rofs));
    assert_eq!(wasi.mv("tmp/a", zip), Err(Errno::Rofs));
    assert_eq!(wasi.hard(zip, "tmp/b"), Err(Errno::Rofs));
    assert_eq!(wasi.hard("tmp/a", "usr/a"), Err(Errno::Rofs));
    let times = super::super::stat::Times::default();
    let set = wasi.path_set_times(PREOPEN, zip.as_bytes(), true, times);
    assert_eq!(set, Err(Errno::Rofs));
    assert_eq!(wasi.rmdir("tmp"), Err(Errno::Busy));
    assert_eq!(wasi.mv("tmp", "tmp2"), Err(Errno::Busy));
    assert_eq!(wasi.mkdir("usr"), Err(Errno::Exist));
    assert_eq!(wasi.mkdir("."), Err(Errno::Exist));
}

#[test]
fn the_root_shows_the_library_and_the_scratch() {
    let mut wasi = wasi();
    assert_eq!(wasi.names("."), [".", "..", "dev", "tmp", "usr"]);
    assert_eq!(wasi.names("tmp/../usr/local"), [".", "..", "lib"]);
    // Above the root there is only the root.
    assert_eq!(wasi.names("../../.."), [".", "..", "dev", "tmp", "usr"]);
    assert_eq!(wasi.names("/usr/../../dev"), [".", "..", "null", "urandom"]);
}

#[test]
fn devices_do_what_their_names_say() {
    let mut wasi = wasi();
    let truncate = OpenOptions {
        oflags: oflags::CREAT | oflags::TRUNC,
        ..WRITE
    };
    let null = wasi.at("dev/null", truncate).unwrap();
    wasi.write(null, &[1; 5000]).unwrap();
    assert_eq!(wasi.read(null, &mut [0; 9]), Ok(0));
    assert_eq!(wasi.tree.scratch.quota().bytes(), 0);
    let random = wasi.at("dev/urandom", READ).unwrap();
    let (mut one, mut two) = ([0; 32], [0; 32]);
    assert_eq!(wasi.read(random, &mut one), Ok(32));
    assert_eq!(wasi.read(random, &mut two), Ok(32));
    assert_ne!(one, two);
}

#[test]
fn a_backing_file_that_is_too_short_is_an_error() {
    let mut wasi = wasi();
    let fd = wasi.at("usr/share/short", READ).unwrap();
    assert_eq!(wasi.pread(fd, 0, &mut [0; 100]), Ok(5));
    assert_eq!(wasi.pread(fd, 5, &mut [0; 100]), Err(Errno::Io));
    assert_eq!(wasi.pread(fd, 100, &mut [0; 100]), Ok(0));
    assert_eq!(wasi.pread(fd, u64::MAX, &mut [0; 100]), Ok(0));
}

#[test]
fn the_builder_refuses_what_makes_no_tree() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let slice = || LibrarySlice {
        file: Arc::clone(&file),
        offset: 0,
        len: 0,
    };
    let mut builder = LibraryBuilder::default();
    for path in [
        "", "a", "a/b", "/a/../b", "/a//b", "/a/", "/", "/a/.", "/\0",
    ] {
        let added = builder.add_file(path, slice());
        assert!(matches!(added, Err(LibraryError::BadPath(_))), "{path}");
    }
    builder.add_file("/x/file", slice()).unwrap();
    let twice = builder.add_file("/x/file", slice());
    assert!(matches!(twice, Err(LibraryError::Exists(_))));
    let below = builder.add_file("/x/file/y", slice());
    assert!(matches!(below, Err(LibraryError::ThroughFile(_))));
    let over = builder.add_file("/x", slice());
    assert!(matches!(over, Err(LibraryError::Exists(_))));
    builder.add_file("/tmp", slice()).unwrap();
    assert!(builder.build().is_err());
}
