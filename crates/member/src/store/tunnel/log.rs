//! The access log on disk. The tunnel says its lines into a pipe; they are written here, where it has no hand in what was
//! written before.
//!
//! A log that is long enough becomes the old one, by a new name: no line is lost between the two. What cannot be written is
//! counted, and told by the next line that can.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use ground::clock;

use crate::store::scope::Scope;

const LOG: &str = "access.log";
/// One old log is kept beside it.
const OLD_LOG: &str = "access.log.1";
const LONGEST_LOG: u64 = 16 << 20;
/// A line has a few hundred bytes.
const LONGEST_LINE: u64 = 8 << 10;

/// Read, and written, at once at most.
const TOGETHER: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    old: PathBuf,
    longest: u64,
    /// Absent while it cannot be opened.
    open: Option<(File, u64)>,
    gathered: Gathered,
    /// Lines that were not written, and that nothing tells of yet.
    lost: u64,
}

/// Lines that are about to be written.
#[derive(Debug, Default)]
struct Gathered {
    text: Vec<u8>,
    /// How many are lost if it is: its own, and those that it tells of.
    lines: u64,
}

impl AccessLog {
    pub(crate) fn new(scope: &Scope) -> Self {
        let (path, old) = (scope.path(LOG), scope.path(OLD_LOG));
        Self { path, old, longest: LONGEST_LOG, open: None, gathered: Gathered::default(), lost: 0 }
    }

    /// Until whoever says the lines is gone. `told` hears what is wrong, and when it is over.
    pub(crate) fn keep(mut self, lines: impl Read, mut told: impl FnMut(Option<String>)) {
        let mut lines = BufReader::with_capacity(TOGETHER, lines);
        // Before anybody calls.
        let mut trouble = self.file().err().map(|why| self.describe(&why));
        told(trouble.clone());
        // What cannot be read any more is at its end.
        while let Ok(Some(said)) = next(&mut lines) {
            match said {
                LogInput::Line(line) => self.gather(&line),
                LogInput::Noise => self.lost += 1,
            }
            // What is there goes out together: to write costs more than a line.
            let is_more = lines.buffer().contains(&b'\n');
            if self.gathered.text.is_empty() || (is_more && !self.has_enough()) {
                continue;
            }
            let now = self.write().err().map(|why| self.describe(&why));
            if now != trouble {
                told(now.clone());
                trouble = now;
            }
        }
    }

    fn gather(&mut self, line: &[u8]) {
        let Gathered { text, lines } = &mut self.gathered;
        if self.lost > 0 {
            let (at, lost) = (clock::now(), self.lost);
            let told =
                format!(r#"{{"at":"{at}","event":"lost","lost":{lost},"reason":"the agent could not write them"}}"#);
            text.extend_from_slice(told.as_bytes());
            text.push(b'\n');
            *lines += lost;
            self.lost = 0;
        }
        text.extend_from_slice(line);
        text.push(b'\n');
        *lines += 1;
    }

    /// As much as there is room for before the log is turned over.
    fn has_enough(&self) -> bool {
        let written = self.open.as_ref().map_or(0, |(_, length)| *length);
        let gathered = self.gathered.text.len();
        gathered >= TOGETHER || written.saturating_add(gathered as u64) >= self.longest
    }

    fn write(&mut self) -> io::Result<()> {
        let Gathered { text, lines } = std::mem::take(&mut self.gathered);
        let written = self.turn_over().and_then(|()| self.append(&text));
        if written.is_err() {
            self.lost = self.lost.saturating_add(lines);
        }
        written
    }

    /// Whole, or not at all.
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let (file, length) = self.file()?;
        if let Err(why) = file.write_all(text) {
            // A disk that is full took a part of it.
            let _ = file.set_len(*length);
            self.open = None;
            return Err(why);
        }
        *length += text.len() as u64;
        Ok(())
    }

    fn turn_over(&mut self) -> io::Result<()> {
        let (_, length) = self.file()?;
        if *length < self.longest {
            return Ok(());
        }
        self.open = None;
        fs::rename(&self.path, &self.old)
    }

    fn file(&mut self) -> io::Result<&mut (File, u64)> {
        let open = if let Some(open) = self.open.take() {
            open
        } else {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            let length = file.metadata()?.len();
            (file, length)
        };
        Ok(self.open.insert(open))
    }

    fn describe(&self, why: &io::Error) -> String {
        format!(
            "`{}` cannot be written: {why}; streams go on, and lines are lost: free space, or repair it",
            self.path.display()
        )
    }
}

/// What was said up to the end of a line.
enum LogInput {
    Line(Vec<u8>),
    /// Too long, or not plain text.
    Noise,
}

/// Nothing at the end.
fn next(lines: &mut impl io::BufRead) -> io::Result<Option<LogInput>> {
    let mut line = Vec::new();
    let mut is_whole = true;
    loop {
        let mut part = Vec::new();
        lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut part)?;
        match part.pop() {
            // What was not said to its end is no line.
            None => return Ok(None),
            Some(b'\n') => {
                line.append(&mut part);
                let is_plain = std::str::from_utf8(&line).is_ok_and(|text| !text.chars().any(char::is_control));
                return Ok(Some(if is_whole && is_plain { LogInput::Line(line) } else { LogInput::Noise }));
            }
            Some(_) => (is_whole, line) = (false, Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::scope;

    fn kept(log: AccessLog, said: &str) -> Vec<Option<String>> {
        let mut told = Vec::new();
        log.keep(said.as_bytes(), |what| told.push(what));
        told
    }

    fn said(log: &mut AccessLog, line: &[u8]) -> io::Result<()> {
        log.gather(line);
        log.write()
    }

    fn read(path: &std::path::Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn no_line_is_lost_when_the_log_is_turned_over() {
        let (_root, scope) = scope();
        let said: Vec<String> = (0..100).map(|n| format!(r#"{{"line":{n}}}"#)).collect();
        let all = said.join("\n") + "\n";
        // Two logs have room for all of them.
        let log = AccessLog { longest: 800, ..AccessLog::new(&scope) };
        assert_eq!(kept(log, &all), [None]);
        let (old, new) = (read(&scope.path(OLD_LOG)), read(&scope.path(LOG)));
        assert!(!old.is_empty() && !new.is_empty());
        assert_eq!(old + &new, all);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told_and_counted() {
        let (_root, scope) = scope();
        // Whatever stands in its place.
        fs::create_dir(scope.path(LOG)).unwrap();
        let mut told = Vec::new();
        let mut log = AccessLog::new(&scope);
        assert!(said(&mut log, b"{}").is_err() && said(&mut log, b"{}").is_err());
        fs::remove_dir(scope.path(LOG)).unwrap();
        log.keep(&b"{\"last\":1}\n"[..], |what| told.push(what));
        assert_eq!(told, [None]);
        let text = read(&scope.path(LOG));
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.contains(r#""event":"lost","lost":2"#), "{first}");
        assert_eq!(rest, "{\"last\":1}\n");
    }

    #[test]
    fn a_full_disk_leaves_no_half_line() {
        let (_root, scope) = scope();
        let mut log = AccessLog::new(&scope);
        // A device that is always full.
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        log.open = Some((full, 0));
        assert_eq!(said(&mut log, b"{}").unwrap_err().kind(), io::ErrorKind::StorageFull);
        said(&mut log, b"{}").unwrap();
        assert!(read(&scope.path(LOG)).ends_with("\n{}\n"));
    }

    #[test]
    fn what_is_no_line_is_not_written() {
        let (_root, scope) = scope();
        let long = "x".repeat(20_000);
        let said = format!("{{\"a\":1}}\n{long}\n\u{1b}[2J\n{{\"b\":2}}\n{{\"half\"");
        kept(AccessLog::new(&scope), &said);
        let text = read(&scope.path(LOG));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.first(), lines.last(), lines.len()), (Some(&"{\"a\":1}"), Some(&"{\"b\":2}"), 3));
        assert!(lines[1].contains(r#""lost":2"#), "{text}");
    }
}
