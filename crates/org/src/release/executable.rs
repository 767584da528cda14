//! For which platform a program was made, read from its own headers. It is never run, and nothing in it is believed
//! further than its length.

use crate::release::{AgentVersion, PlatformWord};

/// Stands in every agent, followed by its version and `;`.
const MARK: &[u8] = b"freehold-node-version:";
const MAX_HEADERS: usize = 256;
const MAX_NOTES: usize = 64;
const LONGEST_VERSION: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    pub os: &'static str,
    pub arch: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAgent {
    #[error("it is no program: neither ELF, Mach-O nor PE")]
    NoProgram,
    #[error("it is cut off or damaged: its headers lead beyond its end")]
    Damaged,
    #[error("it is a library or a part of a program, and cannot be run")]
    NotRunnable,
    #[error(
        "it is a universal Mach-O file, with programs for several architectures: split it first, as with `lipo -thin`"
    )]
    Universal,
    #[error("it was made for an architecture that is not supported ({0})")]
    Architecture(String),
    #[error("it was made for a system that is not supported ({0})")]
    System(String),
}

impl Platform {
    pub fn words(self) -> Option<(PlatformWord, PlatformWord)> {
        Some((self.os.parse().ok()?, self.arch.parse().ok()?))
    }

    pub fn read(file: &[u8]) -> Result<Self, NotAnAgent> {
        match file {
            [0x7f, b'E', b'L', b'F', ..] => elf(file),
            [0xcf, 0xfa, 0xed, 0xfe, ..] => mach(file),
            // Java's class files begin so, too; they are no programs either.
            [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => Err(NotAnAgent::Universal),
            [0xce, 0xfa, 0xed, 0xfe, ..] => Err(NotAnAgent::Architecture("32-bit Mach-O".to_owned())),
            [b'M', b'Z', ..] => pe(file),
            _ => Err(NotAnAgent::NoProgram),
        }
    }
}

/// The version that the agent says of itself in its own bytes. Where two say different things, none counts.
pub fn marked_version(file: &[u8]) -> Option<AgentVersion> {
    let mut found = None;
    let mut rest = file;
    while let Some(at) = position(rest, MARK) {
        rest = rest.get(at + MARK.len()..)?;
        let told = rest.get(..rest.len().min(LONGEST_VERSION + 1))?;
        let end = told.iter().position(|byte| *byte == b';');
        let version = end.and_then(|end| std::str::from_utf8(told.get(..end)?).ok()?.parse::<AgentVersion>().ok());
        if let Some(version) = version {
            if found.as_ref().is_some_and(|known| *known != version) {
                return None;
            }
            found = Some(version);
        }
    }
    found
}

/// Looks at each `f` only: most bytes of a program are none.
fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], NotAnAgent> {
    let rest = bytes.get(at..).ok_or(NotAnAgent::Damaged)?;
    rest.first_chunk::<N>().copied().ok_or(NotAnAgent::Damaged)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, NotAnAgent> {
    take(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, NotAnAgent> {
    take(bytes, at).map(u32::from_le_bytes)
}

fn size_at(bytes: &[u8], at: usize, wide: bool) -> Result<usize, NotAnAgent> {
    let value = if wide { take(bytes, at).map(u64::from_le_bytes)? } else { u32_at(bytes, at)?.into() };
    usize::try_from(value).map_err(|_| NotAnAgent::Damaged)
}

fn slice(bytes: &[u8], from: usize, length: usize) -> Result<&[u8], NotAnAgent> {
    let end = from.checked_add(length).ok_or(NotAnAgent::Damaged)?;
    bytes.get(from..end).ok_or(NotAnAgent::Damaged)
}

fn elf(file: &[u8]) -> Result<Platform, NotAnAgent> {
    let [class, order, _, abi] = take(file, 4)?;
    let wide = match (class, order) {
        (1, 1) => false,
        (2, 1) => true,
        (_, 2) => return Err(NotAnAgent::Architecture("big-endian ELF".to_owned())),
        _ => return Err(NotAnAgent::Damaged),
    };
    let arch = match (u16_at(file, 18)?, wide) {
        (62, true) => "x86_64",
        (183, true) => "aarch64",
        (243, true) => "riscv64",
        (3, false) => "i686",
        (40, false) => "armv7",
        (other, _) => return Err(NotAnAgent::Architecture(format!("ELF machine {other}, class {class}"))),
    };
    // An executable, or one that can be loaded anywhere.
    if !matches!(u16_at(file, 16)?, 2 | 3) {
        return Err(NotAnAgent::NotRunnable);
    }
    let told = Segments::read(file, wide)?;
    let os = match abi {
        2 => "netbsd",
        3 => "linux",
        6 => "illumos",
        9 => "freebsd",
        12 => "openbsd",
        // Most say nothing here; their notes do, or the loader that they ask for. A program that says nothing at all
        // is one without a loader, as they are made for Linux.
        0 => told.note.or(told.loader).unwrap_or("linux"),
        other => return Err(NotAnAgent::System(format!("ELF ABI {other}"))),
    };
    // A library has neither.
    if !told.starts && told.loader.is_none() && !told.has_loader {
        return Err(NotAnAgent::NotRunnable);
    }
    Ok(Platform { os, arch })
}

/// What the program headers of an ELF file say.
#[derive(Default)]
struct Segments {
    note: Option<&'static str>,
    loader: Option<&'static str>,
    has_loader: bool,
    /// It has a place to start from.
    starts: bool,
}

impl Segments {
    fn read(file: &[u8], wide: bool) -> Result<Self, NotAnAgent> {
        let (table, sizes) = if wide { (32, 54) } else { (28, 42) };
        let start = size_at(file, 24, wide)?;
        let (table, each, count) = (size_at(file, table, wide)?, u16_at(file, sizes)?, u16_at(file, sizes + 2)?);
        let (each, count) = (usize::from(each), usize::from(count));
        if count > MAX_HEADERS || each < if wide { 56 } else { 32 } {
            return Err(NotAnAgent::Damaged);
        }
        let mut told = Self { starts: start != 0, ..Self::default() };
        for header in slice(file, table, each * count)?.chunks_exact(each) {
            let (from, length) =
                if wide { (size_at(header, 8, true)?, size_at(header, 32, true)?) } else { narrow(header)? };
            match u32_at(header, 0)? {
                3 => {
                    told.has_loader = true;
                    told.loader = told.loader.or_else(|| loader(slice(file, from, length).unwrap_or_default()));
                }
                4 => told.note = told.note.or_else(|| note(slice(file, from, length).unwrap_or_default())),
                _ => {}
            }
        }
        Ok(told)
    }
}

fn narrow(header: &[u8]) -> Result<(usize, usize), NotAnAgent> {
    Ok((size_at(header, 4, false)?, size_at(header, 16, false)?))
}

fn loader(path: &[u8]) -> Option<&'static str> {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let ends = |name: &[u8]| path.ends_with(name);
    let holds = |name: &[u8]| position(path, name).is_some();
    match () {
        () if ends(b"/ld-elf.so.1") || ends(b"/ld-elf32.so.1") => Some("freebsd"),
        () if ends(b"/ld.elf_so") => Some("netbsd"),
        () if ends(b"/usr/libexec/ld.so") => Some("openbsd"),
        () if ends(b"/ld.so.1") && !holds(b"/ld-linux") => Some("illumos"),
        () if holds(b"/ld-linux") || holds(b"/ld-musl") || holds(b"/ld64") => Some("linux"),
        () => None,
    }
}

/// Owner and kind of the first note that names a system.
fn note(mut notes: &[u8]) -> Option<&'static str> {
    for _ in 0..MAX_NOTES {
        let (name, body) = (u32_at(notes, 0).ok()?, u32_at(notes, 4).ok()?);
        let (name, body) = (usize::try_from(name).ok()?, usize::try_from(body).ok()?);
        let kind = u32_at(notes, 8).ok()?;
        let owner = slice(notes, 12, name).ok()?;
        let after = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let told = slice(notes, after, body).ok()?;
        match (owner, kind) {
            (b"NetBSD\0", 1) => return Some("netbsd"),
            (b"OpenBSD\0", 1) => return Some("openbsd"),
            (b"FreeBSD\0", 1) => return Some("freebsd"),
            (b"GNU\0", 1) => match u32_at(told, 0).ok()? {
                0 => return Some("linux"),
                2 => return Some("illumos"),
                3 => return Some("freebsd"),
                _ => {}
            },
            _ => {}
        }
        notes = notes.get(after.checked_add(body.checked_next_multiple_of(4)?)?..)?;
    }
    None
}

fn mach(file: &[u8]) -> Result<Platform, NotAnAgent> {
    let arch = match u32_at(file, 4)? {
        0x0100_0007 => "x86_64",
        0x0100_000c => "aarch64",
        other => return Err(NotAnAgent::Architecture(format!("Mach-O CPU {other:#x}"))),
    };
    if u32_at(file, 12)? != 2 {
        return Err(NotAnAgent::NotRunnable);
    }
    let (count, length) = (u32_at(file, 16)?, size_at(file, 20, false)?);
    let mut commands = slice(file, 32, length)?;
    for _ in 0..count.min(4096) {
        let (kind, size) = (u32_at(commands, 0)?, size_at(commands, 4, false)?);
        if size < 8 {
            return Err(NotAnAgent::Damaged);
        }
        // Which of Apple's systems it was built for; older ones only say how old macOS may be.
        if kind == 0x32 {
            let system = u32_at(commands, 8)?;
            if system != 1 {
                return Err(NotAnAgent::System(format!("Mach-O platform {system}")));
            }
        }
        commands = commands.get(size..).ok_or(NotAnAgent::Damaged)?;
    }
    Ok(Platform { os: "macos", arch })
}

fn pe(file: &[u8]) -> Result<Platform, NotAnAgent> {
    let at = size_at(file, 0x3c, false)?;
    let header = slice(file, at, 24).map_err(|_| NotAnAgent::NoProgram)?;
    if !header.starts_with(b"PE\0\0") {
        return Err(NotAnAgent::NoProgram);
    }
    let arch = match u16_at(header, 4)? {
        0x8664 => "x86_64",
        0xaa64 => "aarch64",
        0x014c => "i686",
        other => return Err(NotAnAgent::Architecture(format!("PE machine {other:#x}"))),
    };
    let is = u16_at(header, 22)?;
    if is & 0x0002 == 0 || is & 0x2000 != 0 {
        Err(NotAnAgent::NotRunnable)
    } else {
        Ok(Platform { os: "windows", arch })
    }
}

#[cfg(test)]
mod tests;
