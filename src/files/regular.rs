//! Reads files that an agent may have replaced: only regular ones, up to a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Limit for files that are read as a whole.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Opens a regular file. Opening a FIFO could block, and a device may never end.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

pub(crate) fn text(path: &Path) -> io::Result<String> {
    let file = open(OpenOptions::new().read(true), path)?;
    let bytes = bytes(&file, LONGEST)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// All bytes of a file; an error if there are more than the limit.
pub(crate) fn bytes(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_or_holds_up_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).unwrap();
        File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
        std::fs::write(path("small"), "text").unwrap();
        for name in ["zero", "fifo", "sparse", "missing"] {
            assert!(text(&path(name)).is_err(), "{name}");
        }
        assert_eq!(text(&path("small")).unwrap(), "text");
        assert_eq!(text(&path("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
