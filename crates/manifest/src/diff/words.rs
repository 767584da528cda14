//! A plan as text.

use std::fmt;

use super::{Change, MachineChange, Plan, What};

/// So many machines with the same change are named.
const NAMED: usize = 6;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        write!(f, "{}", self.summary.join("\n"))
    }
}

impl fmt::Display for MachineChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.machines.iter().take(NAMED).map(ToString::to_string).collect();
        write!(f, "{}", named.join(", "))?;
        if let Some(more) = self.machines.len().checked_sub(NAMED).filter(|more| *more > 0) {
            write!(f, " and {more} more")?;
        }
        writeln!(f, ": {}", if self.on_trial { "on trial" } else { "access only, no trial" })?;
        self.changes.iter().try_for_each(|change| writeln!(f, "  {change}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, value) = match (&self.from, &self.to) {
            (None, Some(to)) => ("+", to.clone()),
            (Some(from), None) => ("-", from.clone()),
            (Some(from), Some(to)) => ("~", format!("{from} -> {to}")),
            (None, None) => ("~", String::new()),
        };
        let subject = self.subject();
        let tie = match self.what {
            _ if value.is_empty() => "",
            What::Service | What::Carrier | What::Listen | What::Resolver => " at ",
            What::Forward => " to ",
            What::Transport | What::Stale => " ",
            What::Caller => ", at home on ",
            _ => ": ",
        };
        write!(f, "{sign} {subject}{tie}{value}")
    }
}

impl Change {
    fn subject(&self) -> String {
        let name = &self.name;
        match self.what {
            What::Service => format!("service `{name}`"),
            What::TellsCaller => format!("`{name}` is told who calls"),
            What::User => format!("user `{name}`"),
            What::Gateways => "gateways".to_owned(),
            What::Address => "address".to_owned(),
            What::Relay => "carries for others".to_owned(),
            What::Transport => "streams are carried by".to_owned(),
            What::Listen => "listens for nodes".to_owned(),
            What::Socks => "SOCKS".to_owned(),
            What::Forward => format!("forward {name}"),
            What::Resolver => "resolver".to_owned(),
            What::SvidLife => "SVIDs live".to_owned(),
            What::SyncWait => "waits for news".to_owned(),
            What::ApplyDeadline => "goes back unless confirmed within".to_owned(),
            What::Confirm => "confirmed by".to_owned(),
            What::Label => format!("label `{name}`"),
            What::Check => format!("check `{name}`"),
            What::File => format!("file `{name}`"),
            What::Svid => format!("the program of `{name}` has its SVID"),
            What::SvidName => format!("the SVID of `{name}` carries `{}`", self.who),
            What::Caller => format!("`{}` may call `{name}` here", self.who),
            What::Stale => format!("`{}` opens nothing here on a head that is stale for", self.who),
            What::Target => format!("`{}` may call `{name}` from here", self.who),
            What::TargetAt => format!("`{name}` is found on"),
            What::Carrier => format!("relay `{name}`"),
        }
    }
}
