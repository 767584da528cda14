//! Hand-made headers of every kind, whole and broken.

use super::*;

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A 64-bit ELF program with these segments.
fn elf_with(abi: u8, machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, abi];
    put(&mut file, 16, &2_u16.to_le_bytes());
    put(&mut file, 18, &machine.to_le_bytes());
    put(&mut file, 24, &0x40_1000_u64.to_le_bytes());
    put(&mut file, 32, &64_u64.to_le_bytes());
    put(&mut file, 54, &56_u16.to_le_bytes());
    put(&mut file, 56, &u16::try_from(segments.len()).unwrap().to_le_bytes());
    let mut end = 64 + 56 * segments.len();
    put(&mut file, end, b"");
    for (n, (kind, bytes)) in segments.iter().enumerate() {
        let header = 64 + 56 * n;
        put(&mut file, header, &kind.to_le_bytes());
        put(&mut file, header + 8, &(end as u64).to_le_bytes());
        put(&mut file, header + 32, &(bytes.len() as u64).to_le_bytes());
        put(&mut file, end, bytes);
        end += bytes.len();
    }
    file
}

fn note_of(owner: &[u8], kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    let mut note = [word(owner.len()), word(body.len()), kind.to_le_bytes()].concat();
    note.extend_from_slice(owner);
    note.resize(note.len().next_multiple_of(4), 0);
    note.extend_from_slice(body);
    note
}

fn mach_with(cpu: u32, kind: u32, system: u32) -> Vec<u8> {
    let words = [0xfeed_facf, cpu, 0, kind, 1, 24, 0, 0, 0x32, 24, system, 0, 0, 0];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

fn pe_with(machine: u16, is: u16) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    put(&mut file, 0x3c, &0x80_u32.to_le_bytes());
    put(&mut file, 0x80, b"PE\0\0");
    put(&mut file, 0x84, &machine.to_le_bytes());
    put(&mut file, 0x96, &is.to_le_bytes());
    file
}

fn told(file: &[u8]) -> String {
    Platform::read(file).map_or_else(|why| why.to_string(), |platform| format!("{} {}", platform.os, platform.arch))
}

#[test]
fn elf_tells_its_system_by_abi_by_notes_or_by_its_loader() {
    let abi_note = [0_u32.to_le_bytes(), 3_u32.to_le_bytes(), 2_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
    let build_id = note_of(b"GNU\0", 3, &[7; 20]);
    let both = [build_id.clone(), note_of(b"NetBSD\0", 1, &[0; 4])].concat();
    for (file, expected) in [
        (elf_with(0, 62, &[(3, b"/lib64/ld-linux-x86-64.so.2\0")]), "linux x86_64"),
        (elf_with(0, 183, &[(4, &note_of(b"GNU\0", 1, &abi_note))]), "linux aarch64"),
        (elf_with(0, 243, &[(4, &build_id)]), "linux riscv64"),
        (elf_with(3, 62, &[]), "linux x86_64"),
        (elf_with(9, 62, &[(3, b"/libexec/ld-elf.so.1\0")]), "freebsd x86_64"),
        (elf_with(0, 62, &[(4, &note_of(b"OpenBSD\0", 1, &[0; 4]))]), "openbsd x86_64"),
        (elf_with(0, 62, &[(3, b"/usr/libexec/ld.so\0")]), "openbsd x86_64"),
        (elf_with(0, 183, &[(4, &both)]), "netbsd aarch64"),
        (elf_with(0, 62, &[(3, b"/usr/lib/amd64/ld.so.1\0")]), "illumos x86_64"),
        (elf_with(6, 62, &[]), "illumos x86_64"),
        (elf_with(0, 21, &[]), "it was made for an architecture that is not supported (ELF machine 21, class 2)"),
        (elf_with(97, 62, &[]), "it was made for a system that is not supported (ELF ABI 97)"),
    ] {
        assert_eq!(told(&file), expected);
    }
}

#[test]
fn mach_o_and_pe_tell_theirs() {
    for (file, expected) in [
        (mach_with(0x0100_000c, 2, 1), "macos aarch64"),
        (mach_with(0x0100_0007, 2, 1), "macos x86_64"),
        (mach_with(0x0100_000c, 2, 2), "it was made for a system that is not supported (Mach-O platform 2)"),
        (mach_with(0x0100_000c, 6, 1), "it is a library or a part of a program, and cannot be run"),
        (mach_with(7, 2, 1), "it was made for an architecture that is not supported (Mach-O CPU 0x7)"),
        (pe_with(0x8664, 0x22), "windows x86_64"),
        (pe_with(0xaa64, 0x22), "windows aarch64"),
        (pe_with(0x014c, 0x102), "windows i686"),
        (pe_with(0x8664, 0x2022), "it is a library or a part of a program, and cannot be run"),
        (pe_with(0x1c4, 0x22), "it was made for an architecture that is not supported (PE machine 0x1c4)"),
    ] {
        assert_eq!(told(&file), expected);
    }
    assert_eq!(Platform::read(&[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2]), Err(NotAnAgent::Universal));
}

#[test]
fn a_file_that_is_cut_anywhere_is_read_without_harm() {
    let whole = elf_with(0, 62, &[(3, b"/lib64/ld-linux-x86-64.so.2\0"), (4, &note_of(b"GNU\0", 1, &[0; 16]))]);
    for file in [whole, mach_with(0x0100_000c, 2, 1), pe_with(0x8664, 0x22)] {
        for cut in 0..file.len() {
            let _ = Platform::read(&file[..cut]);
        }
        assert!(Platform::read(&file[..20]).is_err());
    }
    for other in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", b"MZ", b"PK\x03\x04"] {
        assert!(Platform::read(other).is_err());
    }
}

#[test]
fn headers_that_lead_elsewhere_are_damage() {
    let mut file = elf_with(0, 62, &[]);
    put(&mut file, 32, &u64::MAX.to_le_bytes());
    put(&mut file, 56, &1_u16.to_le_bytes());
    assert_eq!(Platform::read(&file), Err(NotAnAgent::Damaged));
    let mut endless = mach_with(0x0100_000c, 2, 1);
    put(&mut endless, 36, &0_u32.to_le_bytes());
    assert_eq!(Platform::read(&endless), Err(NotAnAgent::Damaged));
}

#[test]
fn a_version_is_read_where_it_is_marked_and_only_if_it_is_one() {
    let version = |bytes: &[u8]| marked_version(bytes).map(|version| version.to_string());
    assert_eq!(version(b"xx freehold-node-version:0.2.0-rc.1; yy").as_deref(), Some("0.2.0-rc.1"));
    assert_eq!(version(b"ffreehold-node-version:freehold-node-version:1.0.0;").as_deref(), Some("1.0.0"));
    assert_eq!(version(b"freehold-node-version:1.0.0; freehold-node-version:1.0.0;").as_deref(), Some("1.0.0"));
    for none in [
        &b""[..],
        b"freehold-node-version:",
        b"freehold-node-version:1.0.0",
        b"freehold-node-version:no; ",
        b"freehold-node-version:1.0.0; freehold-node-version:2.0.0;",
    ] {
        assert_eq!(version(none), None, "{}", String::from_utf8_lossy(none));
    }
}
