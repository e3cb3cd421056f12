//! What the guest may learn about a node or a descriptor, and the flags it passes.

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Filetype {
    Unknown = 0,
    CharacterDevice = 2,
    Directory = 3,
    RegularFile = 4,
    SymbolicLink = 7,
}

impl Filetype {
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// `filestat`: the attributes of a file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filestat {
    pub dev: u64,
    pub ino: u64,
    pub filetype: Filetype,
    pub nlink: u64,
    pub size: u64,
    pub atim: u64,
    pub mtim: u64,
    pub ctim: u64,
}

/// `fdstat`: the attributes of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fdstat {
    pub filetype: Filetype,
    pub flags: u16,
    pub rights_base: u64,
    pub rights_inheriting: u64,
}

/// One entry of a directory, as `fd_readdir` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// The cookie to go on from after this entry.
    pub next: u64,
    pub ino: u64,
    pub filetype: Filetype,
    pub name: &'a [u8],
}

/// The times to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub atim: Option<u64>,
    pub mtim: Option<u64>,
}

/// What a path is to be opened for.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    pub oflags: u16,
    pub fdflags: u16,
    pub read: bool,
    pub write: bool,
}

/// `lookupflags`: follow a symbolic link in the last place of a path.
pub const LOOKUP_FOLLOW: u32 = 1;

/// `oflags`.
pub mod oflags {
    pub const CREAT: u16 = 1;
    pub const DIRECTORY: u16 = 2;
    pub const EXCL: u16 = 4;
    pub const TRUNC: u16 = 8;
}

/// `fdflags`.
pub mod fdflags {
    pub const APPEND: u16 = 1;
    /// Append, dsync, nonblock, rsync and sync. All but append make no difference in memory.
    pub const ALL: u16 = 0x1f;
}

/// `rights`. libc turns the access mode of `open` into rights, and rights into `F_GETFL`.
pub mod rights {
    pub const FD_DATASYNC: u64 = 1;
    pub const FD_READ: u64 = 1 << 1;
    pub const FD_SEEK: u64 = 1 << 2;
    pub const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
    pub const FD_SYNC: u64 = 1 << 4;
    pub const FD_TELL: u64 = 1 << 5;
    pub const FD_WRITE: u64 = 1 << 6;
    pub const FD_ADVISE: u64 = 1 << 7;
    pub const FD_ALLOCATE: u64 = 1 << 8;
    pub const FD_READDIR: u64 = 1 << 14;
    pub const FD_FILESTAT_GET: u64 = 1 << 21;
    pub const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    pub const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
    pub const POLL_FD_READWRITE: u64 = 1 << 27;
    /// Every right there is.
    pub const ALL: u64 = (1 << 30) - 1;

    /// Any of these asks for reading.
    pub const READING: u64 = FD_READ | FD_READDIR;
    /// Any of these asks for writing.
    pub const WRITING: u64 = FD_WRITE | FD_ALLOCATE | FD_FILESTAT_SET_SIZE;
    /// What every regular file has, however it was opened.
    pub const FILE: u64 = FD_SEEK
        | FD_TELL
        | FD_DATASYNC
        | FD_SYNC
        | FD_ADVISE
        | FD_FDSTAT_SET_FLAGS
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES
        | POLL_FD_READWRITE;
    /// What a stream has. Without `FD_SEEK` and `FD_TELL`.
    pub const STREAM: u64 = FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;
    /// What a directory has: all but what makes sense for files only.
    pub const DIRECTORY: u64 = ALL & !(FD_READ | FD_SEEK | FD_TELL | WRITING);
}
