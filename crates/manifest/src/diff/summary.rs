//! A plan in a few sentences: who gains and loses what, and how many nodes go on trial.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, What};
use crate::compile::Machine;

/// Service and caller, to the places from which the caller may.
pub(super) type Callers = BTreeMap<(String, String), BTreeSet<String>>;

/// So many are named; more are counted.
const NAMED: usize = 3;

pub(super) fn of(plan: &Plan, was: &Callers, is: &Callers) -> Vec<String> {
    if plan.is_empty() {
        let mut told = vec!["nothing changes".to_owned()];
        told.extend(apart(plan));
        return told;
    }
    let mut told = Vec::new();
    told.extend(moved(was, is, "lose", "loses"));
    told.extend(moved(is, was, "gain", "gains"));
    told.extend(from_elsewhere(was, is));
    told.extend(services(plan));
    told.extend(tunnels(plan));
    told.extend(files_and_checks(plan));
    let counts = plan.counts;
    let trial =
        if counts.on_trial == 1 { "1 node goes on trial" } else { &format!("{} nodes go on trial", counts.on_trial) };
    let change = if counts.access_only == 1 { "changes" } else { "change" };
    told.push(format!("{trial}, {} {change} access only, {} unchanged", counts.access_only, counts.unchanged));
    told.extend(counted(&plan.enter, "node enters the map", "nodes enter the map"));
    told.extend(counted(&plan.leave, "node leaves the map", "nodes leave the map"));
    told.extend(counted(&plan.replaced, "node is another machine now", "nodes are other machines now"));
    told.extend(plan.classes.iter().map(|class| match (&class.from, &class.to) {
        (None, _) => format!("class `{}` is new", class.class),
        (_, None) => format!("class `{}` is gone: machines that have only its leaf keep what they have", class.class),
        (Some(from), Some(to)) => format!("class `{}` covers {to} instead of {from}", class.class),
    }));
    told.extend(apart(plan));
    told
}

fn apart(plan: &Plan) -> Vec<String> {
    let mut told = Vec::new();
    told.extend(counted(&plan.unmatched, "member matches nothing", "members match nothing"));
    told.extend(counted(&plan.waiting, "declared node has not joined", "declared nodes have not joined"));
    told
}

/// `2 users lose `wiki`: ...`: what stands in the first and not in the second.
fn moved(here: &Callers, there: &Callers, many: &str, one: &str) -> Vec<String> {
    let mut by_service: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (service, who) in here.keys().filter(|key| !there.contains_key(*key)) {
        let (kind, name) = who.split_once('/').unwrap_or((who.as_str(), ""));
        by_service.entry((service, kind)).or_default().push(name.to_owned());
    }
    let sentence = |((service, kind), names): ((&str, &str), Vec<String>)| {
        if kind == "every node" {
            return format!("every node {one} `{service}`");
        }
        let kinds = if kind == "class" { "classes".to_owned() } else { format!("{kind}s") };
        let (subject, verb) = if names.len() == 1 { (kind, one) } else { (kinds.as_str(), many) };
        format!("{} {subject} {verb} `{service}`: {}", names.len(), some(&names))
    };
    by_service.into_iter().map(sentence).collect()
}

fn from_elsewhere(was: &Callers, is: &Callers) -> Vec<String> {
    let mut by_service: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((service, who), places) in is {
        let before = was.get(&(service.clone(), who.clone()));
        if before.is_some_and(|before| before != places) {
            by_service.entry(service).or_default().push(who.clone());
        }
    }
    let sentence = |(service, who): (&str, Vec<String>)| {
        format!("from other places than so far, `{service}` is called by {}", some(&who))
    };
    by_service.into_iter().map(sentence).collect()
}

fn services(plan: &Plan) -> Vec<String> {
    let mut told = Vec::new();
    for (what, word) in [(What::Service, "service"), (What::User, "user"), (What::Forward, "forward")] {
        let mut by_name: BTreeMap<(&str, bool), Vec<&Machine>> = BTreeMap::new();
        for change in &plan.changes {
            for line in
                change.changes.iter().filter(|line| line.what == what && (line.from.is_none() || line.to.is_none()))
            {
                by_name.entry((&line.name, line.to.is_some())).or_default().extend(&change.machines);
            }
        }
        for ((name, gained), machines) in by_name {
            let verb = match (gained, machines.len()) {
                (true, 1) => "gains",
                (true, _) => "gain",
                (false, 1) => "loses",
                (false, _) => "lose",
            };
            told.push(format!("{} {verb} {word} `{name}`", subjects(&machines)));
        }
    }
    told
}

/// Once for all that is said of tunnels, of SVIDs for programs, and once for whom a stale head shuts out.
fn tunnels(plan: &Plan) -> Vec<String> {
    let with = |is: &dyn Fn(What) -> bool| {
        let changed = plan.changes.iter().filter(|change| change.changes.iter().any(|line| is(line.what)));
        changed.flat_map(|change| &change.machines).collect::<Vec<_>>()
    };
    let tunnel = |what| matches!(what, What::Transport | What::Listen | What::Socks | What::Forward | What::Resolver);
    let mut told = Vec::new();
    for (machines, sentence) in [
        (with(&|what| what == What::Relay), "who carries for others changes with"),
        (with(&tunnel), "how services are reached changes on"),
        (with(&|what| what == What::TellsCaller), "which services are told who calls changes on"),
        (with(&|what| what == What::Svid), "how programs have their SVIDs changes on"),
        (with(&|what| what == What::SvidName), "which DNS names SVIDs carry changes on"),
        (with(&|what| what == What::Stale), "whom a stale head shuts out changes on"),
    ] {
        if !machines.is_empty() {
            told.push(format!("{sentence} {}", subjects(&machines)));
        }
    }
    told
}

fn files_and_checks(plan: &Plan) -> Vec<String> {
    let mut by_name: BTreeMap<(What, &str), Vec<&Machine>> = BTreeMap::new();
    for change in &plan.changes {
        for line in change.changes.iter().filter(|line| matches!(line.what, What::File | What::Check)) {
            by_name.entry((line.what, &line.name)).or_default().extend(&change.machines);
        }
    }
    let sentence = |((what, name), machines): ((What, &str), Vec<&Machine>)| {
        let word = if what == What::File { "file" } else { "check" };
        format!("{word} `{name}` changes on {}", subjects(&machines))
    };
    by_name.into_iter().map(sentence).collect()
}

fn subjects(machines: &[&Machine]) -> String {
    let names: Vec<String> = machines.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [.., last] if names.len() <= NAMED => {
            let first = names.iter().take(names.len() - 1).map(String::as_str).collect::<Vec<_>>().join(", ");
            if first.is_empty() { last.clone() } else { format!("{first} and {last}") }
        }
        all => format!("{} machines", all.len()),
    }
}

fn counted(names: &[impl ToString], one: &str, many: &str) -> Option<String> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let words = if names.len() == 1 { one } else { many };
    (!names.is_empty()).then(|| format!("{} {words}: {}", names.len(), some(&names)))
}

fn some(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}
