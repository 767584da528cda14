//! What makes the programs pleasant to run: configuration, numbers to watch, a doctor, completions, manual pages.

mod completions_and_manual;
mod every_command;
mod narrow;
mod config;
mod metrics;
mod illness;
mod doctor;
mod node_doctor;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use trials::place::{Place, Running, output};

/// A program of this machine, to its end. Tests need it: `scripts/test` installs it.
pub fn run(program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    output(command)
}

/// A gateway that was started with a command of the caller's own, once it listens; and what it said then.
pub fn serving(mut command: Command) -> (Running, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\""), "the gateway did not start: {line}");
    (Running(child), line)
}

/// A gateway with these words, once it listens.
pub fn serve(place: &Place, words: &[&str]) -> Running {
    serving(place.freehold_command(&[&["serve", "--json", "--listen", &place.address()], words].concat())).0
}

/// What a plain HTTP server answers: its whole reply.
pub fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8(reply).unwrap()
}
