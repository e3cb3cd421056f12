//! The errors that a preview 1 call can return.

/// An error number of WASI preview 1. Only the ones that this implementation gives are listed; the
/// numbers and the descriptions are the specification's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u16)]
pub enum Errno {
    /// `badf`: the descriptor is not open, or not open for what was asked of it.
    #[error("bad file descriptor")]
    Badf = 8,
    /// `busy`: device or resource busy.
    #[error("device or resource busy")]
    Busy = 10,
    /// `exist`: file exists.
    #[error("file exists")]
    Exist = 20,
    /// `fault`: bad address.
    #[error("bad address")]
    Fault = 21,
    /// `fbig`: file too large.
    #[error("file too large")]
    Fbig = 22,
    /// `inval`: invalid argument.
    #[error("invalid argument")]
    Inval = 28,
    /// `io`: I/O error.
    #[error("input/output error")]
    Io = 29,
    /// `isdir`: is a directory.
    #[error("is a directory")]
    Isdir = 31,
    /// `loop`: too many levels of symbolic links.
    #[error("too many levels of symbolic links")]
    Loop = 32,
    /// `mfile`: file descriptor value too large, or too many are open.
    #[error("too many open files")]
    Mfile = 33,
    /// `nametoolong`: filename too long.
    #[error("file name too long")]
    Nametoolong = 37,
    /// `noent`: no such file or directory.
    #[error("no such file or directory")]
    Noent = 44,
    /// `nospc`: no space left on device.
    #[error("no space left on device")]
    Nospc = 51,
    /// `notdir`: not a directory or a symbolic link to a directory.
    #[error("not a directory")]
    Notdir = 54,
    /// `notempty`: directory not empty.
    #[error("directory not empty")]
    Notempty = 55,
    /// `notsock`: not a socket.
    #[error("not a socket")]
    Notsock = 57,
    /// `notsup`: not supported.
    #[error("not supported")]
    Notsup = 58,
    /// `overflow`: value too large to be stored in data type.
    #[error("value too large")]
    Overflow = 61,
    /// `perm`: operation not permitted.
    #[error("operation not permitted")]
    Perm = 63,
    /// `rofs`: read-only file system.
    #[error("read-only file system")]
    Rofs = 69,
    /// `spipe`: invalid seek.
    #[error("invalid seek")]
    Spipe = 70,
    /// `notcapable`: capabilities insufficient.
    #[error("capabilities insufficient")]
    Notcapable = 76,
}

impl Errno {
    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }
}
