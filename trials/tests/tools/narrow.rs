//! What a person sees at a terminal of 80 columns: no line wraps, and what is drawn again leaves nothing behind.

use std::process::{Command, Stdio};

use trials::place::{Place, binary, output, stdout, succeeded};

use crate::publishing::{QUAY, Scene};

const COLUMNS: usize = 80;

/// As much of a terminal as our programs use: lines, and up and clear. Whatever scrolled away is there, too.
#[derive(Default)]
struct Screen {
    lines: Vec<Vec<char>>,
    line: usize,
    column: usize,
    /// What reached the last column and went on.
    wrapped: Vec<String>,
}

impl Screen {
    fn of(told: &str) -> Self {
        let mut screen = Self::default();
        let mut rest = told.chars();
        while let Some(c) = rest.next() {
            match c {
                '\n' => (screen.line, screen.column) = (screen.line + 1, 0),
                '\r' => screen.column = 0,
                '\u{1b}' => {
                    let mut sequence = String::new();
                    for c in rest.by_ref().skip_while(|c| *c == '[') {
                        sequence.push(c);
                        if c.is_alphabetic() {
                            break;
                        }
                    }
                    screen.obey(&sequence);
                }
                c => screen.put(c),
            }
        }
        screen
    }

    fn put(&mut self, c: char) {
        if self.column == COLUMNS {
            self.wrapped.push(self.lines[self.line].iter().collect());
            (self.line, self.column) = (self.line + 1, 0);
        }
        if self.lines.len() <= self.line {
            self.lines.resize(self.line + 1, Vec::new());
        }
        let line = &mut self.lines[self.line];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = c;
        self.column += 1;
    }

    fn obey(&mut self, sequence: &str) {
        let (count, what) = sequence.split_at(sequence.len().saturating_sub(1));
        match what {
            "A" => self.line = self.line.saturating_sub(count.parse().unwrap_or(1)),
            "J" => self.lines.truncate(self.line),
            "K" => self.lines[self.line].truncate(self.column),
            "m" => {}
            other => panic!("a sequence that a plain terminal may not know: {count}{other}"),
        }
    }

    /// All that can be seen, also by scrolling back.
    fn text(&self) -> String {
        self.lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
    }
}

/// What is on the screen at the end of this, typed at a small terminal. It ends well, or waits for somebody.
fn typed(place: &Place, words: &str) -> Screen {
    let program = binary("freehold").display().to_string();
    let line = format!("stty cols {COLUMNS} rows 24; exec {program} {words} --home {}", place.home().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    command.current_dir(place.path("")).env("TERM", "xterm").env_remove("NO_COLOR");
    let told = output(command);
    assert!(matches!(told.status.code(), Some(0 | 5)), "{words}: {}", stdout(&told));
    Screen::of(&stdout(&told))
}

#[test]
fn what_is_told_at_a_narrow_terminal_stays_on_its_lines_and_is_drawn_in_its_place() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    // More machines with long names than a line has room for, and none of them is there.
    for nth in 1..=4 {
        let name = format!("machine-in-the-second-hall-{nth}");
        succeeded(&place.join(&name, &place.code(&["--name", &name])));
    }
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: 'machine-*'"));
    let published = typed(place, "publish fleet --yes --wait 3s");
    let rotated = typed(place, "rotate identity --wait 3s");
    // A line that wraps in what is drawn again would stay behind when the next is drawn.
    assert_eq!(published.text().matches("STATE").count(), 1, "{}", published.text());
    assert_eq!(published.text().matches("machine-in-the-second-hall-4  ").count(), 1, "{}", published.text());
    assert_eq!(rotated.text().matches("  `machine-in-the-second-hall-1`").count(), 1, "{}", rotated.text());
    for words in ["node list", "audit"] {
        let screen = typed(place, words);
        assert!(screen.wrapped.is_empty(), "{words}: {:?} in\n{}", screen.wrapped, screen.text());
        assert!(screen.text().contains("--wide shows also"), "{}", screen.text());
    }
}
