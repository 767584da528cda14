//! Which addresses were tried to listen at, one after the other, and why each could not be had.

use std::fmt;
use std::io;
use std::net::SocketAddr;

#[derive(Debug, Default)]
pub(crate) struct NotBound(Vec<BindFailure>);

#[derive(Debug)]
struct BindFailure {
    at: SocketAddr,
    why: io::Error,
}

impl NotBound {
    pub(crate) fn add(&mut self, at: SocketAddr, why: io::Error) {
        self.0.push(BindFailure { at, why });
    }

    /// The same, but of more than so many only the last is kept: a whole row of them says no more than its end.
    pub(crate) fn add_within(&mut self, most: usize, at: SocketAddr, why: io::Error) {
        if self.0.len() >= most {
            self.0.pop();
        }
        self.add(at, why);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for NotBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|BindFailure { at, why }| format!("{at}: {why}")).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for NotBound {}
