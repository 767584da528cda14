//! `freehold-pkcs11`: loads a hardware token's module for `freehold`, which is linked statically and cannot.

mod point;
mod module;

use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;

use ground::secret;
use ground::token::{MAX_LINE, Request, TokenAnswer, Trouble};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

use crate::module::{Failed, Opened};

const USAGE: &str = "freehold-pkcs11: speaks for a hardware token; `freehold` starts it, people do not.
It reads questions from standard input, one JSON object per line.
See which key a token holds: freehold token show URI";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => match serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("error: freehold-pkcs11: {why}");
                ExitCode::FAILURE
            }
        },
        Some("--version") => {
            println!("freehold-pkcs11 {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some("--help" | "-h") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some(_) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Answers until nobody asks any more.
fn serve() -> io::Result<()> {
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // What a module prints goes where errors go.
    let mut told = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let mut asked = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut opened = None;
    loop {
        let line = secret::read_line(&mut asked, MAX_LINE)?;
        if line.is_empty() {
            return Ok(());
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(request) => {
                answer(&mut opened, request).unwrap_or_else(|(trouble, why)| TokenAnswer::Failed { trouble, why })
            }
            Err(why) => TokenAnswer::Failed { trouble: Trouble::Other, why: format!("not a question: {why}") },
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        told.write_all(&line)?;
    }
}

fn answer(opened: &mut Option<Opened>, request: Request) -> Result<TokenAnswer, Failed> {
    // Sessions of one module in one process share a login: the old one goes before the new one comes.
    let (wanted, pin, make) = match request {
        Request::Open { wanted, pin } => (wanted, pin, false),
        Request::Generate { wanted, pin } => (wanted, pin, true),
        Request::Sign { message } => {
            let opened = opened.as_ref().ok_or((Trouble::Other, "no key was opened".to_owned()))?;
            return opened.sign(&message.0).map(|signature| TokenAnswer::Signature(identity::text::Bytes(signature)));
        }
    };
    *opened = None;
    match module::open(&wanted, pin.as_ref(), make)? {
        Ok(new) => {
            let key = new.public();
            *opened = Some(new);
            Ok(TokenAnswer::Opened { key })
        }
        Err(module::PinNeeded { token }) => Ok(TokenAnswer::PinNeeded { token }),
    }
}
