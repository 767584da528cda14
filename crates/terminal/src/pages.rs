//! `completions` and `man`, of both programs: made from the description of the command line, so that they never lag.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use ground::file::{self, FileAccess};

use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Examples, for freehold; freehold-node takes the same words:
  freehold completions bash > ~/.local/share/bash-completion/completions/freehold
  freehold completions zsh > ~/.zfunc/_freehold
  freehold completions fish > ~/.config/fish/completions/freehold.fish")]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self, mut program: Command) -> Result<(), Failure> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, &name, &mut script);
        if self.shell == Shell::Bash {
            // clap_complete 4.6 takes the hyphen of a program's name for the start of a command in half of the places.
            let (taken, meant) = (name.replace('-', "__subcmd__"), name.replace('-', "__"));
            script = String::from_utf8_lossy(&script).replace(&taken, &meant).into_bytes();
        }
        print(&script)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples, for freehold; freehold-node takes the same words:
  freehold man | man -l -                     read the first page
  freehold man --out ~/.local/share/man/man1  write all pages, one for each command")]
pub struct Man {
    /// Write a page for each command into this folder, instead of printing the first
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub fn run(&self, program: Command) -> Result<(), Failure> {
        // `help` would repeat them all.
        let mut program = program.disable_help_subcommand(true);
        program.build();
        match &self.out {
            None => print(&render(&program)?),
            Some(folder) => write_all(&program, folder),
        }
    }
}

/// A page for a command, and for each below it.
fn write_all(command: &Command, folder: &Path) -> Result<(), Failure> {
    let failed = |why: std::io::Error| failure(&why).hint("does the folder exist, and may you write there?");
    let page = Page::new(command.clone());
    let path = folder.join(page.get_filename());
    std::fs::metadata(folder).map_err(failed)?;
    file::write(&path, &render(command)?, FileAccess::Readable).map_err(|why| failure(&why))?;
    command.get_subcommands().try_for_each(|below| write_all(below, folder))
}

fn render(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Page::new(command.clone()).render(&mut page).map_err(|why| failure(&why))?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = typeset(name, &String::from_utf8_lossy(&page));
    // References to the commands below, where a page has another name than its words.
    for below in command.get_subcommands() {
        let words = format!("{name}-{}(1)", below.get_name()).replace('-', "\\-");
        let title = format!("{}(1)", below.get_display_name().unwrap_or_default()).replace('-', "\\-");
        page = page.replace(&words, &title);
    }
    Ok(page.into_bytes())
}

/// Examples keep their lines and columns, and the title has no date: a page is the same whenever it is made.
fn typeset(name: &str, page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let title = format!(".TH \"{name}\" 1 \"\" \"freehold {}\" \"Freehold\"", env!("CARGO_PKG_VERSION"));
    let mut verbatim = false;
    // Two breaks around an empty line: one space does.
    let page = page.replace("\n.br\n\n.br\n", "\n.sp\n");
    for line in page.lines() {
        if verbatim && line.starts_with(".SH") {
            out.push_str(".fi\n");
            verbatim = false;
        }
        if line.starts_with(".TH ") {
            out.push_str(&title);
        } else if line == ".SH EXTRA" {
            out.push_str(".SH EXAMPLES\n.nf");
            verbatim = true;
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    if verbatim { out + ".fi\n" } else { out }
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().write_all(bytes) {
        // Whoever reads may have seen enough.
        Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|why| failure(&why)),
    }
}

fn failure(why: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new("could not write it", why)
}
