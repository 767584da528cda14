//! Agents that are released, files that are served by their hash, and the forms in which an invite is handed over.

mod download;
mod add;
mod kept_files;
mod forms;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use identity::id::Digest;
use serde_json::Value;
use trials::place::{Place, binary, output, succeeded};

/// The agent of this very build: a real ELF program.
fn agent() -> String {
    binary("freehold-node").to_string_lossy().into_owned()
}

/// A program for another platform, made of nothing but a header and the mark of its version.
pub fn made_up(place: &Place, name: &str, header: &[u8], version: &str) -> String {
    let mark = format!("freehold-node-version:{version};");
    let path = place.path(name);
    std::fs::write(&path, [header, &[0; 64], mark.as_bytes()].concat()).unwrap();
    path.to_string_lossy().into_owned()
}

pub fn mach_o() -> Vec<u8> {
    let words: [u32; 14] = [0xfeed_facf, 0x0100_000c, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pe() -> Vec<u8> {
    let mut file = vec![0; 0x98];
    file[..2].copy_from_slice(b"MZ");
    file[0x3c] = 0x80;
    file[0x80..0x84].copy_from_slice(b"PE\0\0");
    file[0x84..0x86].copy_from_slice(&0x8664_u16.to_le_bytes());
    file[0x96..0x98].copy_from_slice(&0x0022_u16.to_le_bytes());
    file
}

/// What a stranger's curl gets: the status, and the bytes in a file.
struct Curl {
    url: String,
    words: Vec<String>,
}

impl Curl {
    fn new(place: &Place, digest: &str) -> Self {
        Self { url: format!("https://{}/v1/file/{digest}", place.address()), words: Vec::new() }
    }

    fn with(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn command(&self, out: &Path) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sSk", "-w", "%{http_code}", "-o"]).arg(out).args(&self.words).arg(&self.url);
        command.stdin(Stdio::null());
        command
    }

    fn get(&self, out: &Path) -> (String, Vec<u8>) {
        let got: Output = output(self.command(out));
        succeeded(&got);
        (String::from_utf8(got.stdout).unwrap(), std::fs::read(out).unwrap_or_default())
    }
}

fn files(place: &Place) -> PathBuf {
    place.org().join("gateway/files")
}

fn stored(place: &Place, digest: &str) -> bool {
    files(place).join(digest).is_file()
}

fn hash_of(path: &str) -> String {
    Digest::of(&std::fs::read(path).unwrap()).to_string()
}

fn digests(release: &Value) -> Vec<String> {
    let agents = release["agents"].as_array().unwrap().iter().map(|agent| agent["sha256"].as_str().unwrap().to_owned());
    agents.chain([release["list"].as_str().unwrap().to_owned()]).collect()
}
