//! A phrase of words from a list, typed at a terminal word by word: each is completed as soon as it can be no other.

use std::fs::File;
use std::io::{Read as _, Write as _, stderr};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// In order of the alphabet.
pub type WordList = &'static [&'static str];

#[derive(Debug, thiserror::Error)]
pub enum NoPhrase {
    #[error("the phrases are needed, and there is no terminal to ask at")]
    NoTerminal(#[source] std::io::Error),
    #[error("the terminal could not be read")]
    Unreadable(#[source] std::io::Error),
    #[error("it was broken off")]
    BrokenOff,
}

/// A terminal at which phrases are typed: one after the other, or pasted at once. What was pasted beyond them goes nowhere.
#[derive(Debug)]
pub struct PhrasePrompt {
    terminal: Unechoed,
    /// Else what is typed shows as stars.
    shown: bool,
}

impl PhrasePrompt {
    pub fn open(shown: bool) -> Result<Self, NoPhrase> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(NoPhrase::NoTerminal)?;
        let terminal = Unechoed::take(terminal).map_err(NoPhrase::Unreadable)?;
        Ok(Self { terminal, shown })
    }

    /// Asks until there are so many words.
    pub fn ask(&mut self, prompt: &str, words: WordList, count: usize) -> Result<Zeroizing<String>, NoPhrase> {
        let (mut entry, shown) = (Entry::new(words, count), self.shown);
        draw(prompt, &entry, shown, "");
        let entered = loop {
            let heard = match self.terminal.key().map_err(NoPhrase::Unreadable)? {
                Some(key) => entry.take(key),
                None => Heard::BrokenOff,
            };
            match heard {
                Heard::More => draw(prompt, &entry, shown, ""),
                Heard::NoSuchWord => draw(prompt, &entry, shown, "(no such word: type it again) "),
                Heard::Several => draw(prompt, &entry, shown, "(several words begin so: type more) "),
                Heard::Whole => break Ok(entry.phrase()),
                Heard::BrokenOff => break Err(NoPhrase::BrokenOff),
            }
        };
        let _ = writeln!(stderr());
        entered
    }
}

fn draw(prompt: &str, entry: &Entry, shown: bool, remark: &str) {
    let (at, count) = ((entry.done.len() + 1).min(entry.count), entry.count);
    let typed = if shown { entry.typed.to_string() } else { "*".repeat(entry.typed.chars().count()) };
    let before = match entry.done.last() {
        Some(word) if shown => format!("{word} "),
        Some(_) | None => String::new(),
    };
    let remark = if entry.is_full() { "(Enter ends it) " } else { remark };
    let line = Zeroizing::new(format!("\r\u{1b}[K{prompt}, word {at} of {count}: {remark}{before}{typed}"));
    let mut out = stderr();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Letter(char),
    /// A blank or tab.
    Next,
    /// Pasted phrases come in lines; the last word of a phrase ends with this alone, so that nobody answers the next question
    /// by ending a phrase.
    Enter,
    Back,
    /// Begin this phrase anew.
    Clear,
    BreakOff,
    Nothing,
}

impl From<u8> for Key {
    fn from(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Self::Letter(char::from(byte.to_ascii_lowercase())),
            b' ' | b'\t' => Self::Next,
            b'\r' | b'\n' => Self::Enter,
            0x7f | 0x08 => Self::Back,
            0x15 => Self::Clear,
            // Ctrl-C, Ctrl-D, Ctrl-\.
            0x03 | 0x04 | 0x1c => Self::BreakOff,
            _ => Self::Nothing,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    More,
    NoSuchWord,
    Several,
    Whole,
    BrokenOff,
}

/// What was typed so far.
struct Entry {
    words: WordList,
    count: usize,
    done: Vec<&'static str>,
    typed: Zeroizing<String>,
}

impl Entry {
    fn new(words: WordList, count: usize) -> Self {
        // Room for the longest word that anybody types: what grows leaves copies behind.
        Self { words, count, done: Vec::with_capacity(count), typed: Zeroizing::new(String::with_capacity(64)) }
    }

    fn take(&mut self, key: Key) -> Heard {
        match key {
            Key::Letter(letter) if self.typed.len() < 32 && !self.is_full() => self.typed.push(letter),
            Key::Back if self.typed.is_empty() => drop(self.done.pop()),
            Key::Back => drop(self.typed.pop()),
            Key::Clear => {
                self.typed.clear();
                self.done.clear();
            }
            Key::Next => return self.end_word(),
            Key::Enter => {
                let heard = self.end_word();
                return if heard == Heard::More && self.is_full() { Heard::Whole } else { heard };
            }
            Key::BreakOff => return Heard::BrokenOff,
            Key::Letter(_) | Key::Nothing => {}
        }
        Heard::More
    }

    fn end_word(&mut self) -> Heard {
        if self.typed.is_empty() {
            return Heard::More;
        }
        let candidates = beginning_with(self.words, &self.typed);
        let word = candidates.iter().find(|word| **word == *self.typed);
        match (word, candidates) {
            (Some(word), _) | (None, [word]) => self.done.push(word),
            (None, []) => {
                self.typed.clear();
                return Heard::NoSuchWord;
            }
            (None, [_, _, ..]) => return Heard::Several,
        }
        self.typed.clear();
        Heard::More
    }

    const fn is_full(&self) -> bool {
        self.done.len() == self.count
    }

    fn phrase(&self) -> Zeroizing<String> {
        Zeroizing::new(self.done.join(" "))
    }
}

fn beginning_with(words: WordList, prefix: &str) -> WordList {
    let from = words.partition_point(|word| *word < prefix);
    let rest = words.get(from..).unwrap_or_default();
    let count = rest.iter().take_while(|word| word.starts_with(prefix)).count();
    rest.get(..count).unwrap_or_default()
}

/// A terminal that shows nothing of what is typed, and hands over each key at once, until this is dropped.
#[derive(Debug)]
struct Unechoed {
    terminal: File,
    before: Termios,
}

impl Unechoed {
    fn take(terminal: File) -> std::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Whoever types ahead is not ignored.
        tcsetattr(&terminal, OptionalActions::Now, &quiet)?;
        Ok(Self { terminal, before })
    }

    /// Nothing if the terminal is gone.
    fn key(&mut self) -> std::io::Result<Option<Key>> {
        let mut byte = [0];
        let read = self.terminal.read(&mut byte)?;
        if byte == [0x1b] {
            // The rest of what an arrow or another key sends.
            while self.waits(Timespec { tv_sec: 0, tv_nsec: 5_000_000 }) && self.terminal.read(&mut [0])? == 1 {}
        }
        Ok((read == 1).then(|| Key::from(byte[0])))
    }

    fn waits(&self, patience: Timespec) -> bool {
        let mut polled = [PollFd::new(&self.terminal, PollFlags::IN)];
        poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0) && polled[0].revents().contains(PollFlags::IN)
    }
}

impl Drop for Unechoed {
    fn drop(&mut self) {
        // What is left over is discarded by this: a shell would take it for commands, and keep it in its history.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: WordList = &["sea", "seal", "search", "stone"];

    /// What was heard last, and the phrase so far.
    fn typed(keys: &str) -> (Heard, String) {
        let mut entry = Entry::new(LIST, 3);
        let mut last = Heard::More;
        for byte in keys.bytes() {
            last = entry.take(Key::from(byte));
            if last == Heard::Whole {
                break;
            }
        }
        (last, entry.phrase().to_string())
    }

    #[test]
    fn words_are_completed_when_they_can_be_no_other_and_a_word_of_the_list_is_itself() {
        assert_eq!(typed("st\tsea Searc \n"), (Heard::Whole, "stone sea search".to_owned()));
        assert_eq!(typed("se "), (Heard::Several, String::new()));
        assert_eq!(
            typed("stone sea seal x "),
            (Heard::More, "stone sea seal".to_owned()),
            "Enter ends it, and nothing else"
        );
        assert_eq!(typed("se al "), (Heard::More, "seal".to_owned()), "what was typed stays");
    }

    #[test]
    fn a_wrong_word_is_typed_again_and_those_before_it_stay() {
        assert_eq!(typed("stone sand "), (Heard::NoSuchWord, "stone".to_owned()));
        assert_eq!(typed("stone sand sea seal\n"), (Heard::Whole, "stone sea seal".to_owned()));
        assert_eq!(typed("stone\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}sea "), (Heard::More, "sea".to_owned()));
        assert_eq!(typed("stone \u{7f}"), (Heard::More, String::new()), "back over the word before");
        assert_eq!(typed("stone sea \u{15}seal "), (Heard::More, "seal".to_owned()));
        assert_eq!(typed("stone \u{3}").0, Heard::BrokenOff);
    }
}
