//! The path of a file, and where a part of it begins: what leads anywhere is one digest, written one way.

use identity::id::Digest;
use wire::permit::{Ask, named_file};

pub fn seeds() -> Vec<Vec<u8>> {
    vec![format!("/v1/file/{}", Digest::of(b"script")).into_bytes()]
}

pub fn check(data: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(data) else {
        return false;
    };
    let named = named_file(path);
    assert_eq!(Ask::route("GET", path) == Some(Ask::File), named.is_some(), "{path}");
    let Some(digest) = named else {
        return false;
    };
    assert_eq!(format!("/v1/file/{digest}"), path, "one address");
    true
}
