//! The first page of a program's help: its commands in groups, in the order in which somebody comes to need them.

use clap::Command;

use crate::screen::cut_into;

/// Commands that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub title: &'static str,
    pub commands: &'static [&'static str],
}

/// The same program, with its commands in groups. What stands in none is told last.
pub(crate) fn grouped(program: Command, groups: &[Group]) -> Command {
    let named: Vec<&str> = groups.iter().flat_map(|group| group.commands).copied().collect();
    let shown = || program.get_subcommands().filter(|command| !command.is_hide_set());
    let others: Vec<&str> = shown().map(Command::get_name).filter(|name| !named.contains(name)).collect();
    let indent = shown().map(|command| command.get_name().len()).max().unwrap_or(0) + 4;
    let section = |title: &str, names: &[&str]| {
        let commands = names.iter().filter_map(|name| program.find_subcommand(name));
        let rows: String = commands.map(|command| row(command, indent)).collect();
        if rows.is_empty() { rows } else { format!("{title}:\n{rows}\n") }
    };
    let listed: String = groups.iter().map(|group| section(group.title, group.commands)).collect();
    let listed = listed + &section("More", &others);
    let page =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}");
    program.help_template(page)
}

fn row(command: &Command, indent: usize) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut row = format!("  {:<width$}", command.get_name(), width = indent - 2);
    for (nth, line) in cut_into(&about, indent).iter().enumerate() {
        if nth > 0 {
            row.push_str(&" ".repeat(indent));
        }
        row.push_str(line);
        row.push('\n');
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_stands_in_the_help_once_with_what_it_is_for() {
        let long = "Say something that is so long that it does not fit on one line of a terminal that has eighty columns or a hundred";
        let program = Command::new("ship").about("Sails").disable_help_subcommand(true).subcommands([
            Command::new("sail").about("Put out to sea"),
            Command::new("moor").about(long),
            Command::new("pump").about("Pump"),
            Command::new("sink").about("Sink").hide(true),
        ]);
        let groups = [Group { title: "Begin", commands: &["sail"] }, Group { title: "End", commands: &["moor"] }];
        let help = grouped(program, &groups).render_help().to_string();
        let (begin, end, more) =
            (help.find("Begin:\n  sail  Put out"), help.find("End:\n  moor  Say"), help.find("More:\n  pump"));
        assert!(begin < end && end < more && begin.is_some(), "{help}");
        assert!(!help.contains("sink") && help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert_eq!(help.split_whitespace().collect::<Vec<_>>().join(" ").matches(long).count(), 1, "{help}");
    }
}
