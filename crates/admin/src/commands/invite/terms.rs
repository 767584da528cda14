//! What `invite create` is told of who may come, and how: the kind, patterns, a person's yes, a file for the code.

use std::path::Path;

use clap::{Args, ValueEnum};
use ground::file::{self, FileAccess, FileError};
use identity::principal::glob::NameGlob;
use identity::principal::host::HostGlob;
use identity::time::Seconds;
use operate::invite::kinds::{InviteChoice, InviteTerms, TTL, TTL_WITH_A_PERSON};
use org::invite::{Approval, Uses};
use terminal::failure::{Exit, Failure};

#[derive(Debug, Args)]
pub struct TermsArgs {
    /// What a joiner shows: the secret of a code, or a key that is baked into an image
    #[arg(long, value_name = "KIND", conflicts_with = "patterns")]
    kind: Option<KindWord>,
    /// Let in whoever claims such a host name (with dots) or such a name: proves nothing; needs --from; may be repeated
    #[arg(long = "pattern", value_name = "GLOB")]
    patterns: Vec<String>,
    /// The full host name that the machine must claim, beside the secret; its name is the first part; may be repeated
    #[arg(long = "host", value_name = "GLOB", conflicts_with = "patterns")]
    hosts: Vec<HostGlob>,
    /// Whether an operator looks at each machine first [default: none; human with --pattern]
    #[arg(long, value_name = "WHO")]
    approval: Option<ApprovalWord>,
    /// How many operators must say yes, if one must
    #[arg(long, value_name = "N", default_value = "1")]
    approvers: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindWord {
    Token,
    Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApprovalWord {
    None,
    Human,
}

impl Wanted {
    /// A key lies in a file, and nowhere else.
    pub fn is_key(&self) -> bool {
        self.terms.kind == InviteChoice::Key
    }
}

/// What was asked for, with what is so if nothing was said.
#[derive(Debug)]
pub struct Wanted {
    pub terms: InviteTerms,
    pub approval: Approval,
    pub approvers: u8,
    pub names: Vec<NameGlob>,
    pub uses: Uses,
    pub ttl: Seconds,
}

impl TermsArgs {
    /// `names`, `uses` and `ttl` are what was typed, if it was.
    pub fn wanted(
        &self,
        names: Vec<NameGlob>,
        uses: Option<Uses>,
        ttl: Option<Seconds>,
        doing: &str,
    ) -> Result<Wanted, Failure> {
        let (names, mut hosts) = self.split_patterns(names, doing)?;
        hosts.extend(self.hosts.iter().cloned());
        let kind = match self.kind {
            _ if !self.patterns.is_empty() => InviteChoice::Pattern,
            Some(KindWord::Key) => InviteChoice::Key,
            Some(KindWord::Token) | None => InviteChoice::Token,
        };
        let approval = match (self.approval, kind) {
            (Some(ApprovalWord::Human), _) | (None, InviteChoice::Pattern) => Approval::Human,
            (Some(ApprovalWord::None) | None, _) => Approval::None,
        };
        let all = if kind == InviteChoice::Pattern { Uses::Unlimited } else { Uses::Limited(1) };
        let long = if approval == Approval::Human { TTL_WITH_A_PERSON } else { TTL };
        let terms = InviteTerms { kind, hosts };
        let (uses, ttl) = (uses.unwrap_or(all), ttl.unwrap_or(long));
        Ok(Wanted { terms, approval, approvers: self.approvers, names, uses, ttl })
    }

    /// With a dot: a host name's. Without: a name's.
    fn split_patterns(&self, names: Vec<NameGlob>, doing: &str) -> Result<(Vec<NameGlob>, Vec<HostGlob>), Failure> {
        let any = || "*".parse::<NameGlob>().map(|any| vec![any]).unwrap_or_default();
        let bad = |why: String| Failure::usage(doing, why);
        let (dotted, bare): (Vec<&String>, Vec<&String>) = self.patterns.iter().partition(|text| text.contains('.'));
        match (dotted.as_slice(), bare.as_slice()) {
            ([], []) => Ok((if names.is_empty() { any() } else { names }, Vec::new())),
            (dotted, []) => {
                let hosts: Result<Vec<HostGlob>, _> = dotted.iter().map(|text| text.parse()).collect();
                let hosts = hosts.map_err(|why| bad(why.to_string()))?;
                Ok((if names.is_empty() { any() } else { names }, hosts))
            }
            ([], bare) if names.is_empty() => {
                let globs: Result<Vec<NameGlob>, _> = bare.iter().map(|text| text.parse()).collect();
                Ok((globs.map_err(|why| bad(why.to_string()))?, Vec::new()))
            }
            ([], _) => Err(bad("a pattern without dots is one of names already: leave out --name".to_owned())),
            _ => Err(bad("some patterns are of host names, with dots, and some of names".to_owned())
                .hint("a machine would have to fit both: make two invites")),
        }
    }
}

/// Nothing is overwritten: what is there may be the only copy of something.
pub fn check_free(out: &Path, doing: &str) -> Result<(), Failure> {
    if out.symlink_metadata().is_ok() { Err(taken(out, doing)) } else { Ok(()) }
}

fn taken(out: &Path, doing: &str) -> Failure {
    Failure::refused(doing, format!("`{}` is there already", out.display()))
        .hint("move it away, or choose another name")
}

/// A private file that was not there before.
pub fn write_new(out: &Path, bytes: &[u8], doing: &str) -> Result<(), Failure> {
    file::write_new(out, bytes, FileAccess::Private).map_err(|why| match &why {
        FileError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => taken(out, doing),
        _ => Failure::new(doing, &why).exit(Exit::Failed),
    })
}

/// What a person should know of an invite that proves nothing.
pub fn warn_of_low(approval: Approval) {
    eprintln!(
        "LOW ASSURANCE: a host name and an address can be forged. Whoever comes in by this pattern is marked as such for\n\
         ever, and never becomes an operator's machine, a gateway, a relay or a provider of services."
    );
    if approval == Approval::None {
        eprintln!("Nobody looks at them first: you typed --approval none.");
    }
}
