//! The program that loads a token's module: started, asked and ended by us. Secrets go to it over its standard input.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ground::secret;
use ground::token::{MAX_LINE, Request, TokenAnswer};

#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("the program `freehold-pkcs11`, which speaks with tokens, is not here")]
    NotFound,
    #[error("`{}` cannot be started", program.display())]
    NotStarted {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`freehold-pkcs11` broke off: the token's module may have crashed")]
    BrokenOff,
    #[error("`freehold-pkcs11` answered something else than was asked: is it of another version?")]
    OtherAnswer,
}

const NAME: &str = "freehold-pkcs11";

#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Helper {
    pub(crate) fn start() -> Result<Self, HelperError> {
        let program = find().ok_or(HelperError::NotFound)?;
        let mut command = Command::new(&program);
        // A module may need its own variables; of ours it needs none.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FREEHOLD_")) {
            command.env_remove(name);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|source| HelperError::NotStarted { program, source })?;
        let (to, from) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let (Some(to), Some(from)) = (to, from) else {
            return Err(HelperError::BrokenOff);
        };
        Ok(Self { child, to, from })
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Result<TokenAnswer, HelperError> {
        let line = secret::to_line(request).map_err(|_| HelperError::OtherAnswer)?;
        let mut told = Vec::new();
        let mut exchange = || -> io::Result<()> {
            self.to.write_all(&line)?;
            self.to.flush()?;
            self.from.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut told)?;
            Ok(())
        };
        exchange().map_err(|_| HelperError::BrokenOff)?;
        if told.is_empty() {
            return Err(HelperError::BrokenOff);
        }
        serde_json::from_slice(&told).map_err(|_| HelperError::OtherAnswer)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Beside this program, then on the PATH.
fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|here| Some(here.parent()?.join(NAME)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(NAME));
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}
