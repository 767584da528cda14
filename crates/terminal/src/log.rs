//! Log lines, and where they go.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Log lines go to stderr; `FREEHOLD_LOG` says how much (`info` by default).
pub fn log_to_stderr() {
    log_to(std::io::stderr);
}

/// For a process that must not stand still when nobody reads what it says: what finds no room is lost, and counted.
pub fn log_aside() -> std::io::Result<()> {
    let (aside, lines) = Aside::new();
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        for line in lines {
            let _ = std::io::stderr().write_all(&line);
        }
    })?;
    log_to(move || aside.clone());
    Ok(())
}

fn log_to<W: for<'a> MakeWriter<'a> + Send + Sync + 'static>(writer: W) {
    let filter = EnvFilter::try_from_env("FREEHOLD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// So many lines wait for whoever reads them.
const LINES: usize = 1_024;

#[derive(Clone)]
struct Aside {
    lines: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl Aside {
    fn new() -> (Self, Receiver<Vec<u8>>) {
        let (lines, queue) = sync_channel(LINES);
        (Self { lines, lost: Arc::default() }, queue)
    }
}

impl std::io::Write for Aside {
    /// One line, as it is written by the log.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let lost = self.lost.swap(0, Relaxed);
        let told = format!("{lost} lines of the log were lost here: nobody read them\n");
        if lost > 0 && self.lines.try_send(told.into_bytes()).is_err() {
            self.lost.fetch_add(lost + 1, Relaxed);
        } else if self.lines.try_send(line.to_vec()).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_to_a_log_that_nobody_reads_does_not_wait_and_tells_how_much_was_lost() {
        let (mut aside, lines) = Aside::new();
        for n in 0..LINES + 500 {
            aside.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        assert_eq!(lines.try_iter().count(), LINES);
        aside.write_all(b"at last\n").unwrap();
        let told: Vec<_> = lines.try_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        assert_eq!(told, ["500 lines of the log were lost here: nobody read them\n", "at last\n"]);
    }
}
