//! Programs of any platform: read within their bounds, and a version is a word that cannot break out of its line.

use org::release::executable::{Platform, marked_version};
use org::release::{Agent, MAX_FILE, Release};

const SYSTEMS: [&str; 7] = ["linux", "macos", "freebsd", "openbsd", "netbsd", "illumos", "windows"];
const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "armv7", "i686", "riscv64"];

pub fn seeds() -> Vec<Vec<u8>> {
    let marked = |header: Vec<u8>| [header, b"freehold-node-version:0.1.0;".to_vec()].concat();
    vec![marked(elf()), marked(mach_o()), marked(pe())]
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    file.resize(file.len().max(at + bytes.len()), 0);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// With a loader and a note.
fn elf() -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    put(&mut file, 16, &[3, 0, 62, 0]);
    put(&mut file, 24, &0x1000_u64.to_le_bytes());
    put(&mut file, 32, &64_u64.to_le_bytes());
    put(&mut file, 54, &[56, 0, 2, 0]);
    let (loader, note) =
        (b"/lib64/ld-linux-x86-64.so.2\0", b"\x04\0\0\0\x10\0\0\0\x01\0\0\0GNU\0\0\0\0\0\x03\0\0\0\x02\0\0\0\0\0\0\0");
    let mut at = 64 + 2 * 56;
    for (n, (kind, bytes)) in [(3_u32, &loader[..]), (4, &note[..])].into_iter().enumerate() {
        let header = 64 + 56 * n;
        put(&mut file, header, &kind.to_le_bytes());
        put(&mut file, header + 8, &(at as u64).to_le_bytes());
        put(&mut file, header + 32, &(bytes.len() as u64).to_le_bytes());
        put(&mut file, at, bytes);
        at += bytes.len();
    }
    file
}

fn mach_o() -> Vec<u8> {
    let words: [u32; 14] = [0xfeed_facf, 0x0100_000c, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pe() -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    put(&mut file, 0x3c, &[0x80]);
    put(&mut file, 0x80, b"PE\0\0\x64\x86");
    put(&mut file, 0x96, &[0x22, 0]);
    file
}

pub fn check(data: &[u8]) -> bool {
    let (platform, version) = (Platform::read(data), marked_version(data));
    if let Some(version) = &version {
        let word = version.to_string();
        assert!(word.bytes().all(|c| c.is_ascii_alphanumeric() || b".-+".contains(&c)) && word.len() <= 40, "{word}");
    }
    let (Ok(platform), Some(version)) = (platform, version) else {
        return false;
    };
    assert!(SYSTEMS.contains(&platform.os) && ARCHITECTURES.contains(&platform.arch), "{platform:?}");
    let (os, arch) = platform.words().expect("words");
    let size = (data.len() as u64).clamp(1, MAX_FILE);
    let agent = Agent { os, arch, version, size, sha256: identity::id::Digest::of(data) };
    let release = Release::next(None, vec![agent], "2026-11-15T12:00:00Z".parse().expect("a time"));
    assert_eq!(release.check(), Ok(()));
    let text = release.list_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "freehold-agents 1"));
    assert_eq!(lines[1].split(' ').count(), 5, "{text}");
    true
}
