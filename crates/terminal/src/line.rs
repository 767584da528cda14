//! The line that was typed: read; or what is wrong with it, as words or as JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Error, Parser};

use crate::failure::Failure;
use crate::help::{Group, grouped};
use crate::typed;

/// What was typed, or how the program ends without it: with the help that was asked for, or with what is wrong.
pub fn read<T: Parser>(groups: &[Group]) -> Result<T, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let read = grouped(T::command(), groups).try_get_matches_from(&words).and_then(|matches| {
        typed::keep(T::command(), &matches);
        T::from_arg_matches(&matches)
    });
    read.map_err(|why| end(&why.format(&mut T::command()), wants_json(&words)))
}

/// It is not read yet, and what is wrong with it is wanted as JSON all the same.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

fn end(why: &Error, json: bool) -> ExitCode {
    if json && why.use_stderr() {
        return failure(why).finish(true);
    }
    // Whoever reads may have seen enough.
    let _ = why.print();
    u8::try_from(why.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn failure(why: &Error) -> Failure {
    const DOING: &str = "the command line cannot be understood";
    // Here its words are the whole help, or all commands.
    if let ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand = why.kind() {
        return Failure::usage(DOING, "a command is missing").hint("--help lists them");
    }
    let told = why.render().to_string();
    let mut parts = told.trim().split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = parts.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    let rest: Vec<String> = parts.collect();
    let failure = Failure::usage(DOING, first);
    if rest.is_empty() { failure } else { failure.hint(rest.join("; ")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Greets.
    #[derive(Debug, Parser)]
    struct Greet {
        #[arg(long)]
        json: bool,
        name: String,
    }

    #[test]
    fn json_is_wanted_by_a_word_of_ours_and_not_by_one_that_is_handed_on() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&words(&["freehold", "nod", "--json"])));
        assert!(!wants_json(&words(&["freehold", "nod", "--", "--json"])));
    }

    #[test]
    fn what_is_wrong_with_a_line_has_a_cause_and_a_hint_of_one_line_each() {
        for (words, cause) in [
            (&["greet"][..], "the following required arguments were not provided: <NAME>"),
            (&["greet", "ann", "--jsno"], "unexpected argument '--jsno' found"),
        ] {
            let why = Greet::try_parse_from(words).unwrap_err();
            let told = format!("{:?}", failure(&why));
            assert!(told.contains(cause) && told.contains("Usage: ") && !told.contains("\\n"), "{told}");
        }
    }
}
