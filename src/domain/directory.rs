//! Encodes the caller's working directory in requests to the server of the same machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use url::Url;

/// The header of a request that names the caller's directory.
pub const HEADER: &str = "fleet-directory";

/// The header's value for this path: a file URL, since paths may contain characters that headers cannot.
pub fn encode(path: &Path) -> String {
    // Without a usable path, as in a removed directory, the server reports the error.
    Url::from_file_path(path).map(String::from).unwrap_or_default()
}

/// The path in a header: a file URL, or a plain path.
pub fn decode(value: &[u8]) -> PathBuf {
    let url = std::str::from_utf8(value).ok().and_then(|text| Url::parse(text).ok());
    let of_url = url.filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
    of_url.unwrap_or_else(|| PathBuf::from(OsStr::from_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_arrives_as_it_was() {
        for bytes in [&b"/srv/a b/\xc3\xbc%20#?\n"[..], b"/not \xff utf-8", b"/", b"/a//b"] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let encoded = encode(path);
            assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()), "{encoded}");
            assert_eq!(decode(encoded.as_bytes()), path);
        }
    }

    #[test]
    fn a_plain_path_means_itself_and_what_is_no_path_stays_none() {
        for plain in
            ["/srv/a b", "/srv/50%20", "relative", "", "file:x", "file://elsewhere/srv", "http://a/b"]
        {
            let decoded = decode(plain.as_bytes());
            assert_eq!(decoded.is_absolute(), plain.starts_with('/') || plain == "file:x", "{decoded:?}");
        }
        assert_eq!(decode(b"/srv/50%20"), Path::new("/srv/50%20"));
        assert_eq!(encode(Path::new("")), "");
    }
}
