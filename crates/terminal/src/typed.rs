//! Which org, folder and gateway were named on the line that was typed: a hint that names a command names them, too.

use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// What says of whom a command is, in both programs.
const NAMING: [&str; 6] = ["home", "root", "org", "scope", "gateway", "as_node"];

static TYPED: OnceLock<Typed> = OnceLock::new();

/// Kept once, as early as it is read.
pub(crate) fn keep(program: Command, matches: &ArgMatches) {
    let _ = TYPED.set(Typed::of(program, matches));
}

/// The same text; commands of this program in it have the options that were typed.
pub(crate) fn repeated(text: &str) -> String {
    TYPED.get().map_or_else(|| text.to_owned(), |typed| typed.repeated(text))
}

struct Typed {
    program: Command,
    /// Each with its dashes, and its value as a shell takes it.
    options: Vec<(String, String)>,
}

impl Typed {
    fn of(mut program: Command, mut matches: &ArgMatches) -> Self {
        program.build();
        while let Some((_, below)) = matches.subcommand() {
            matches = below;
        }
        let typed = |name: &&str| {
            // A variable goes on to be set.
            let was_typed = matches.value_source(name) == Some(ValueSource::CommandLine);
            let value = matches.get_raw(name).filter(|_| was_typed)?.next()?.to_string_lossy();
            let long = program.get_arguments().find(|arg| arg.get_id() == *name)?.get_long()?;
            Some((format!("--{long}"), quoted(&value)))
        };
        // Of every command of this program, and not of one alone.
        let is_common = |name: &&str| program.get_arguments().any(|arg| arg.get_id() == *name && arg.is_global_set());
        let options = NAMING.into_iter().filter(|name| is_common(name)).filter_map(|name| typed(&name)).collect();
        Self { program, options }
    }

    fn repeated(&self, text: &str) -> String {
        let name = self.program.get_name();
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(name) {
            // `freehold` is in `freehold-node`, and in paths.
            let is_word = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "-/._".contains(c));
            let end = at + name.len();
            let said = if is_word && !is_elsewhere(&rest[..at]) { said(&self.program, &rest[end..]) } else { 0 };
            let (command, more) = rest.split_at(end + said);
            out.push_str(command);
            for (option, value) in self.options.iter().filter(|(option, _)| said > 0 && !names(command, option)) {
                out.extend([" ", option, " ", value]);
            }
            rest = more;
        }
        out + rest
    }
}

/// Is it to be run on a machine that is named before it? What was typed names nothing there.
fn is_elsewhere(before: &str) -> bool {
    let named = before.strip_suffix("`: ").and_then(|text| text.rsplit_once('`'));
    let others = ["n each of them: ", "n its machine: ", "each runs: ", "is the last delivers it: "];
    named.is_some_and(|(text, _)| text.ends_with("on ")) || others.iter().any(|words| before.ends_with(words))
}

/// How many bytes of a text, in which words may follow, are a command with what belongs to it. 0 if it begins with none.
fn said(program: &Command, text: &str) -> usize {
    let (mut here, mut wanted, mut end) = (program, 0, 0);
    for word in text.strip_prefix(' ').into_iter().flat_map(|text| text.split(' ')) {
        let bare = word.trim_end_matches([',', ';', ':', '.', ')', '`']);
        if let Some(below) = here.find_subcommand(bare) {
            here = below;
            wanted = below.get_positionals().filter(|arg| arg.is_required_set()).count();
        } else if end == 0 {
            return 0;
        } else if let Some(long) = bare.strip_prefix("--") {
            let takes = |arg: &&Arg| arg.get_long() == Some(long) && arg.get_action().takes_values();
            wanted += usize::from(here.get_arguments().any(|arg| takes(&arg)));
        } else if wanted > 0 {
            wanted -= 1;
        } else if !is_placeholder(bare) {
            break;
        }
        end += 1 + bare.len();
        if bare.len() < word.len() {
            break;
        }
    }
    end
}

/// `NAME`, `HOST:PORT`, `DOMAIN...`: to be filled in; or something with a number in it, which no sentence goes on with.
fn is_placeholder(word: &str) -> bool {
    let is_filled_in = word.starts_with(|c: char| c.is_ascii_uppercase()) && !word.contains(|c: char| c.is_lowercase());
    is_filled_in || word.contains(|c: char| c.is_ascii_digit())
}

/// Is the option said already?
fn names(command: &str, option: &str) -> bool {
    command.split([' ', '=']).any(|word| word == option)
}

fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,~".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser, Subcommand};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "freehold")]
    struct Cli {
        #[arg(long, global = true, env = "FREEHOLD_TEST_HOME", default_value = "~/.freehold")]
        home: String,
        #[arg(long, global = true)]
        org: Option<String>,
        #[command(subcommand)]
        command: Below,
    }

    #[derive(Debug, Subcommand)]
    enum Below {
        Doctor {
            service: Option<String>,
        },
        #[command(subcommand)]
        Gateway(Gateway),
        Rotate {
            domain: String,
            #[arg(long)]
            grace: Option<String>,
            #[arg(long)]
            r#continue: bool,
        },
    }

    #[derive(Debug, Subcommand)]
    enum Gateway {
        List,
        Remove { node: String },
    }

    fn typed(line: &str) -> Typed {
        let matches = Cli::command().try_get_matches_from(line.split(' ')).unwrap();
        Typed::of(Cli::command(), &matches)
    }

    #[test]
    fn a_hint_names_the_home_and_the_org_that_were_typed_wherever_they_stood() {
        for (hint, told) in [
            ("see: freehold gateway list", "see: freehold gateway list --org reef"),
            ("run `freehold gateway remove quay`; then", "run `freehold gateway remove quay --org reef`; then"),
            (
                "freehold rotate identity --continue --grace 1d; or",
                "freehold rotate identity --continue --grace 1d --org reef; or",
            ),
            (
                "there freehold-node join, here freehold doctor says more",
                "there freehold-node join, here freehold doctor --org reef says more",
            ),
            (
                "freehold gateway remove NODE (freehold gateway list)",
                "freehold gateway remove NODE --org reef (freehold gateway list --org reef)",
            ),
            ("freehold doctor --org lagoon", "freehold doctor --org lagoon"),
            ("look: freehold doctor d0f2a1", "look: freehold doctor d0f2a1 --org reef"),
            ("then on `alpha`: freehold doctor", "then on `alpha`: freehold doctor"),
            ("is it there? On each of them: freehold doctor", "is it there? On each of them: freehold doctor"),
            ("the others sign, too; each runs: freehold doctor", "the others sign, too; each runs: freehold doctor"),
            ("a newer freehold wrote /var/lib/freehold doctor", "a newer freehold wrote /var/lib/freehold doctor"),
        ] {
            for line in ["freehold --org reef doctor", "freehold gateway list --org reef"] {
                assert_eq!(typed(line).repeated(hint), told);
            }
        }
        let both = typed("freehold doctor --home it's --org reef");
        assert_eq!(both.repeated("freehold doctor"), "freehold doctor --home 'it'\\''s' --org reef");
        assert_eq!(
            typed("freehold doctor").repeated("freehold doctor"),
            "freehold doctor",
            "what is the default is not said"
        );
    }
}
