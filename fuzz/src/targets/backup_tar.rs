//! The tar file inside a backup, as whoever knows a recipient can make one: headers are bounded, and what is read is
//! written as something that is read the same.

use identity::time::Timestamp;
use operate::backup::tar::{BLOCK, BadTar, END, TarEntry, TarEntryKind, header, next, padding};

const AT: Timestamp = Timestamp::from_unix(1_900_000_000);

fn entry(path: &str, kind: TarEntryKind) -> TarEntry {
    TarEntry { path: path.to_owned(), kind }
}

fn whole(entries: &[(TarEntry, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (entry, body) in entries {
        tar.extend(header(entry, 0o600, AT).expect("it fits"));
        tar.extend(*body);
        tar.extend(padding(body.len() as u64));
    }
    tar.extend(END);
    tar
}

pub fn seeds() -> Vec<Vec<u8>> {
    let file = |path: &str, body: &[u8]| entry(path, TarEntryKind::File { size: body.len() as u64 });
    let link = |path: &str, target: &str| entry(path, TarEntryKind::Link { target: target.to_owned() });
    let list = b"{\"schema\":1}";
    let long = "a-name-that-is-long/".repeat(14);
    vec![
        whole(&[
            (file("contents.json", list), list),
            (entry("operator/", TarEntryKind::Folder), b""),
            (file("operator/known.json", b"{}"), b"{}"),
            (link("operator/current", "svids/1"), b""),
        ]),
        whole(&[(file(&format!("{long}x"), b"x"), b"x"), (link("operator/l", &format!("{long}y")), b"")]),
        whole(&[(file(&long[..150], b""), b"")]),
        whole(&[(file(&format!("{}x", "/".repeat(120)), b""), b"")]),
    ]
}

#[derive(Debug, PartialEq)]
enum No {
    Cut,
    Bad,
}

impl From<BadTar> for No {
    fn from(_: BadTar) -> Self {
        Self::Bad
    }
}

/// What is in it, and how many bytes of it were read.
fn read(data: &[u8]) -> Result<Vec<TarEntry>, No> {
    let (mut rest, mut entries) = (data, Vec::new());
    loop {
        let mut asked = 0;
        let found = next(|out| {
            asked += out.len();
            assert!(asked <= 3 * BLOCK + (16 << 10), "a header is bounded");
            let (now, later) = rest.split_at_checked(out.len()).ok_or(No::Cut)?;
            out.copy_from_slice(now);
            rest = later;
            Ok::<_, No>(())
        })?;
        assert_eq!(asked % BLOCK, 0, "whole blocks");
        let Some(entry) = found else {
            return Ok(entries);
        };
        if let TarEntryKind::File { size } = entry.kind {
            let size = usize::try_from(size).map_err(|_| No::Cut)?;
            let size = size + padding(size as u64).count();
            rest = rest.get(size..).ok_or(No::Cut)?;
        }
        entries.push(entry);
    }
}

/// Got to its end: it has something in it.
pub fn check(data: &[u8]) -> bool {
    let as_it_is = reads(data);
    let mended = reads(&mended(data));
    as_it_is || mended
}

/// Right sums are no obstacle to whoever makes a tar.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for block in data.chunks_exact_mut(BLOCK).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    data
}

fn reads(data: &[u8]) -> bool {
    let Ok(entries) = read(data) else {
        return false;
    };
    for entry in &entries {
        let bytes = header(entry, 0o600, AT).expect("a size that was read can be written");
        if bytes.len() > 15 << 10 {
            // Names that just fit into the records of others may not fit into ours.
            continue;
        }
        let mut again = bytes.as_slice();
        let found = next(|out| {
            let (now, later) = again.split_at_checked(out.len()).ok_or(No::Cut)?;
            out.copy_from_slice(now);
            again = later;
            Ok::<_, No>(())
        });
        assert_eq!(found, Ok(Some(entry.clone())));
        assert!(again.is_empty());
    }
    !entries.is_empty()
}
