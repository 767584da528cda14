//! What a pending object would do, in words that are read from its bytes alone.

use identity::bundle::BundleBody;
use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::{Cause, FleetRef, Head, Lines, Mandate, Revocations, TrustLine, TrustState, Turn};
use identity::signers::{Quorum, Word};
use org::invite::approve::Waiver;
use org::invite::{Approval, Invite, InviteKind};
use org::ledger::step::SignerStep;
use org::release::{Agent, Release};
use org::state::head::AHEAD;
use wire::known::Known;
use wire::known::freeze::names;

use crate::pending::handed::Handed;

/// One line per effect, against what this home knows.
pub fn in_words(known: &Known, handed: &Handed) -> Result<Vec<String>, BadEnvelope> {
    let org = Some(known.org());
    Ok(match handed.0.as_slice() {
        [with @ .., head] if head.kind() == Head::KIND => head_lines(known, &head.peek(org)?, with)?,
        objects => {
            let mut lines = Vec::new();
            for object in objects {
                lines.extend(object_lines(known, object)?);
            }
            lines
        }
    })
}

/// What counts without a head.
fn object_lines(known: &Known, object: &Envelope) -> Result<Vec<String>, BadEnvelope> {
    let org = Some(known.org());
    Ok(match object.kind() {
        Invite::KIND => invite_lines(&object.peek(org)?),
        Waiver::KIND => {
            let Waiver { names, from, until } = object.peek(org)?;
            let names = joined(&names, " ");
            vec![format!("lets machines named {names} join without a person's look, from {from} until {until}")]
        }
        _ => Vec::new(),
    })
}

/// A head, by its cause, and what comes with it.
fn head_lines(known: &Known, head: &Head, with: &[Envelope]) -> Result<Vec<String>, BadEnvelope> {
    let org = Some(known.org());
    let mut lines = match (&head.cause, with) {
        (Cause::SignersInstall, [step]) => signer_lines(known, head.version, step)?,
        (Cause::ReleasePublish { .. }, [release]) => {
            let release: Release = release.peek(org)?;
            let mut lines = vec![format!("publishes release {} of the agent:", release.number)];
            lines.extend(release.agents.iter().map(agent_words));
            lines.push(format!("publishes head {} to name it", head.version));
            lines
        }
        (cause @ Cause::GatewayReopen { .. }, invites) => {
            let mut lines = vec![format!("publishes head {}{}", head.version, because(cause))];
            lines.extend(skipped(known.head.head.version, head));
            for invite in invites {
                lines.push("signs an invite anew for that chain:".to_owned());
                lines.extend(invite_lines(&invite.peek(org)?).into_iter().map(|line| format!("  {line}")));
            }
            lines
        }
        (cause, bundles) => {
            if let Some(turn) = cause.turn() {
                trust_lines(known, head.version, turn, bundles)?
            } else {
                let mut lines = vec![format!("publishes head {}{}", head.version, because(cause))];
                lines.extend(skipped(known.head.head.version, head));
                lines
            }
        }
    };
    lines.extend(gone_round(known, head));
    lines.extend(head_changes(&known.head.head, head));
    Ok(lines)
}

/// Another signer set, and on whose word.
fn signer_lines(known: &Known, head: u64, step: &Envelope) -> Result<Vec<String>, BadEnvelope> {
    let step = SignerStep::read(known.org(), step)?;
    let by = match step.word {
        Word::Recovery => ", on the word of the RECOVERY KEYS",
        Word::Signers => "",
    };
    let mut lines = vec![format!("installs signer set {}, in place of {}{by}", step.to.version, known.signers.version)];
    if !step.also.is_empty() {
        let rival = |id| known.set(id).map_or_else(|| format!("{id}, unknown here"), |set| names(&set.quorum));
        let rivals: Vec<String> = step.follows().map(rival).collect();
        lines.push(format!("SETTLES which of several sets signs that claim one place: {}", rivals.join(" | ")));
        lines.push("  none of them does any more; everybody follows at once".to_owned());
    }
    lines.extend(quorum_changes(&known.signers.quorum, &step.to.quorum));
    lines.push(format!("publishes head {head} under it"));
    Ok(lines)
}

/// It need not know of the head in force; whoever goes round that one says so.
fn gone_round(known: &Known, head: &Head) -> Option<String> {
    let (own, version) = (known.head.digest, known.head.head.version);
    let follows = head.previous.first().map_or("none".to_owned(), ToString::to_string);
    let same_set = head.signers == known.signers.as_ref();
    (same_set && !head.previous.contains(&own)).then(|| {
        format!(
            "GOES ROUND head {version}, which is in force here: it follows head {follows} instead, and what that said"
        )
    })
}

/// A turn in the life of the trusted roots, as a co-signer must see it.
fn trust_lines(known: &Known, head: u64, turn: &Turn, bundles: &[Envelope]) -> Result<Vec<String>, BadEnvelope> {
    let mut lines = Vec::new();
    for bundle in bundles {
        let body: BundleBody = bundle.peek(Some(known.org()))?;
        let (domain, version) = (body.domain.word(), body.trust_bundle_version);
        let back = body.reverts.map(|reverts| format!(", which takes version {reverts} back")).unwrap_or_default();
        lines.push(format!("publishes trust bundle {version} of `{domain}`{back}: {}", body.sha256_fingerprint));
        lines.extend(body.outside.iter().map(|outside| {
            format!("  with an OUTSIDE root, for downloads from {} alone", joined(&outside.hosts, ", "))
        }));
    }
    if let Some(grace) = turn.grace {
        lines.push(format!("the former version is trusted until {}", grace.until));
    }
    lines.extend(turn.waived.iter().map(|waived| format!("LETS BREAK: {waived}")));
    lines.push(format!("publishes head {head} to do so"));
    Ok(lines)
}

fn agent_words(agent: &Agent) -> String {
    let Agent { os, arch, version, size, sha256 } = agent;
    format!("  {os} {arch}: version {version}, {size} bytes, SHA-256 {sha256}")
}

fn because(cause: &Cause) -> String {
    match cause {
        Cause::Founding => ", to found the org".to_owned(),
        Cause::Refresh => ", to renew it".to_owned(),
        Cause::NodeRevoke { name, .. } => format!(", to revoke the node that its maker calls `{name}`"),
        Cause::InviteRevoke { invite } => format!(", to revoke invite {invite}"),
        Cause::MandateChange { gateway } => format!(", to change the mandate of `{gateway}`"),
        Cause::GatewayAdd { gateway } => format!(", to make `{gateway}` a gateway"),
        Cause::GatewayMove { gateway } => format!(", to have `{gateway}` come first of the gateways"),
        Cause::GatewayRemove { gateway } => format!(", to remove the gateway `{gateway}`"),
        Cause::GatewayReopen { gateway } => format!(", to have `{gateway}` begin another chain"),
        Cause::NodeList { name, .. } => format!(", to list the machine that its maker calls `{name}`"),
        Cause::FleetPublish => ", to publish the fleet".to_owned(),
        Cause::FleetRollback { to } => format!(", to go back to what head {to} said of the fleet"),
        Cause::PrincipalRevoke { principal } => format!(", to revoke `{principal}`"),
        Cause::SignersInstall => ", to install signers".to_owned(),
        Cause::ReleasePublish { number } => format!(", to publish release {number} of the agent"),
        Cause::TrustPublish(_) | Cause::TrustActivate(_) | Cause::TrustRollback(_) | Cause::TrustRetire(_) => {
            ", to turn trust".to_owned()
        }
    }
}

/// Whoever holds a signed head can send it for as long as its version is higher than the one in force.
fn skipped(now: u64, head: &Head) -> Option<String> {
    let next = now.saturating_add(1);
    (head.version > next).then(|| {
        format!(
            "SKIPS heads {next} to {}: once signed, it can be sent until one of that version is in force, whatever is \
             published before",
            head.version - 1
        )
    })
}

pub(crate) fn head_changes(old: &Head, new: &Head) -> Vec<String> {
    let mut lines = vec![format!("is fresh until {} (now {})", new.fresh_until, old.fresh_until)];
    if new.issued_at + AHEAD < old.issued_at {
        let back = old.issued_at.since(new.issued_at).roughly();
        lines.push(format!(
            "SETS THE CLOCK BACK by {back}, to {}: head {} was from the future",
            new.issued_at, old.version
        ));
    }
    if let Some(reverts) = new.reverts {
        lines.push(format!("goes back to what head {reverts} said"));
    }
    lines.extend(mandate_changes(&old.mandates, &new.mandates));
    if let Some(first) = new.first_gateway().filter(|first| old.first_gateway() != Some(first)) {
        lines.push(format!("has `{first}` come first: nodes, invites and operators' tools go there"));
    }
    lines.extend(revoked(&old.revocations, &new.revocations));
    lines.extend(trust_changes(&old.trust, &new.trust));
    for place in new.placements.iter().filter(|place| !old.placements.contains(place)) {
        lines.push(format!("places {} on `{}`", place.principal, place.node));
    }
    for place in old.placements.iter().filter(|place| !new.placements.contains(place)) {
        lines.push(format!("takes {} from `{}`", place.principal, place.node));
    }
    lines.extend(fleet_changes(old, new));
    for (voice, place) in new.record.iter().filter(|(voice, place)| old.record.get(voice) != Some(place)) {
        let gateway = new.mandate_for_voice(*voice).or_else(|| old.mandate_for_voice(*voice));
        let named = gateway.map_or_else(|| voice.to_string(), |mandate| format!("`{}`", mandate.gateway));
        lines.push(format!("settles the chain of {named} up to entry {}", place.seq));
    }
    if new.release != old.release {
        lines.push(format!(
            "changes the agent release to {}",
            new.release.map_or("none".to_owned(), |id| id.to_string())
        ));
    }
    lines
}

/// What becomes of each version of the roots.
pub(crate) fn trust_changes(old: &[TrustLine], new: &[TrustLine]) -> Vec<String> {
    let mut lines = Vec::new();
    for line in new.iter().filter(|line| !old.contains(line)) {
        let before = old.iter().find(|before| before.is_same(line));
        let was = before.filter(|before| before.state != line.state);
        let was = was.map(|before| format!(", no longer {}", trust_words(before))).unwrap_or_default();
        let (version, domain) = (line.version, line.domain.word());
        lines.push(format!("version {version} of `{domain}` is {}{was}", trust_words(line)));
        if let Some(known) = old.iter().find(|it| before.is_none() && it.has_number_of(line)) {
            lines.push(format!(
                "CHANGES WHAT VERSION {version} of `{domain}` IS: bundle {} (now {}): do not sign, unless two operators \
                 published at once",
                line.bundle, known.bundle
            ));
        }
        if let Some(known) = old.iter().find(|it| it.domain == line.domain && it.bundle == line.bundle)
            && known.version != line.version
        {
            lines.push(format!(
                "GIVES THE BUNDLE of version {} of `{domain}` ANOTHER NUMBER, {version}: do not sign",
                known.version
            ));
        }
        if before.is_some_and(|before| before.distrusted) && !line.distrusted {
            lines.push(format!("FORGETS THAT VERSION {version} of `{domain}` WAS STOLEN: do not sign"));
        }
        if before.is_some_and(|before| !before.state.is_trusted()) && line.state.is_trusted() {
            lines.push(format!("TRUSTS VERSION {version} of `{domain}` AGAIN, which was retired: do not sign"));
        }
    }
    for line in old.iter().filter(|line| !new.iter().any(|it| it.is_same(line))) {
        lines.push(format!(
            "NO LONGER LISTS version {} of `{}`, bundle {}",
            line.version,
            line.domain.word(),
            line.bundle
        ));
    }
    lines
}

fn trust_words(line: &TrustLine) -> String {
    match (line.state, line.grace) {
        (TrustState::Staged, _) => "staged".to_owned(),
        (TrustState::Active, _) => "in use".to_owned(),
        (TrustState::Grace, Some(grace)) => format!("on its way out until {}", grace.until),
        (TrustState::Grace, None) => "on its way out".to_owned(),
        (TrustState::Retired, _) if line.distrusted => "trusted NO MORE, and its roots NEVER again".to_owned(),
        (TrustState::Retired, _) => "trusted NO MORE".to_owned(),
    }
}

/// Which fleet the head names. What is in it only its makers can show: compile the commit, and compare the root.
fn fleet_changes(old: &Head, new: &Head) -> Vec<String> {
    let mut lines = Vec::new();
    if new.members != old.members {
        let root = |root: Option<identity::id::Digest>| root.map_or("none".to_owned(), |root| root.to_string());
        lines.push(format!("names the members' map {} (now {})", root(new.members), root(old.members)));
        let fleet = "check out the commit, and `freehold plan` must name the same map";
        lines.push(if new.fleet == old.fleet {
            format!("  by its own word of the same fleet as now; if it publishes that again: {fleet}")
        } else {
            format!("  what is in it: {fleet}")
        });
    } else if new.members.is_some() && new.fleet != old.fleet {
        lines.push("names the same members' map as now".to_owned());
    }
    if new.fleet != old.fleet {
        lines.push(match &new.fleet {
            None => "says no longer which fleet it is of".to_owned(),
            Some(FleetRef { commit: None, .. }) => "is of a fleet that no commit names".to_owned(),
            Some(FleetRef { commit: Some(commit), tree, dirty }) => {
                let tree = tree.as_ref().map(|tree| format!(", tree {tree}")).unwrap_or_default();
                let dirty = if *dirty { ", WITH CHANGES that were not committed" } else { "" };
                format!("is of the fleet's commit {commit}{tree}{dirty}")
            }
        });
    }
    if new.recent.is_empty() && old.members.is_some() {
        lines.push("lets nodes believe no proof of membership that is older than this head".to_owned());
    }
    lines
}

fn mandate_changes(old: &[Mandate], new: &[Mandate]) -> Vec<String> {
    let mut lines = Vec::new();
    let same = |a: &Mandate, b: &Mandate| a.gateway == b.gateway && a.voice == b.voice;
    let spoke = |mandate: &Mandate| {
        let before = old.iter().find(|before| before.gateway == mandate.gateway)?;
        (Mandate { voice: mandate.voice, ..before.clone() } == *mandate).then_some(before.voice)
    };
    let reopened = |before: &Mandate| new.iter().any(|mandate| spoke(mandate) == Some(before.voice));
    for mandate in new {
        match old.iter().find(|before| same(before, mandate)) {
            None if spoke(mandate).is_some() => lines.push(format!(
                "ENDS THE CHAIN of `{}`, and has it begin another, in the voice {}: whom only the rest of it let in waits",
                mandate.gateway, mandate.voice
            )),
            None => lines.push(format!("GIVES A MANDATE to `{}`: {}", mandate.gateway, mandate_words(mandate))),
            Some(before) if before == mandate => {}
            Some(before) => {
                let until_only = Mandate { not_after: mandate.not_after, ..before.clone() } == *mandate;
                if until_only {
                    lines.push(format!("extends the mandate of `{}` until {}", mandate.gateway, mandate.not_after));
                } else {
                    lines.push(format!("CHANGES THE MANDATE of `{}`: {}", mandate.gateway, mandate_words(mandate)));
                    lines.push(format!("  until now: {}", mandate_words(before)));
                }
            }
        }
    }
    let gone = old.iter().filter(|before| !new.iter().any(|mandate| same(before, mandate)) && !reopened(before));
    for gone in gone {
        lines.push(format!(
            "takes the mandate from `{}`: everything that it issued is worth nothing at once",
            gone.gateway
        ));
    }
    lines
}

fn mandate_words(mandate: &Mandate) -> String {
    let kinds: Vec<_> = mandate.kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let at = joined(&mandate.addresses, " ");
    format!(
        "{} for the names {}, SVIDs of {}, as {}, found at {}, issuing keys {} and {}, voice {}, from {} until {}",
        kinds.join(", "),
        joined(&mandate.names, " "),
        mandate.svid_ttl,
        joined(&mandate.hosts, " "),
        if at.is_empty() { "no address" } else { &at },
        mandate.identity_issuer,
        mandate.endpoint_issuer,
        mandate.voice,
        mandate.not_before,
        mandate.not_after
    )
}

pub(crate) fn revoked(old: &Revocations, new: &Revocations) -> Vec<String> {
    fn added<T: Ord + ToString>(what: &str, old: &Lines<T>, new: &Lines<T>) -> Vec<String> {
        new.beyond(old).map(|one| format!("revokes the {what} {}", one.to_string())).collect()
    }
    let keys = new.node_keys.beyond(&old.node_keys);
    let mut lines: Vec<String> = keys.map(|key| format!("revokes the node key {key}")).collect();
    lines.extend(added("issuing key", &old.issuing_keys, &new.issuing_keys));
    lines.extend(added("certificate", &old.serials, &new.serials));
    lines.extend(added("principal", &old.principals, &new.principals));
    lines.extend(added("voice", &old.voices, &new.voices));
    lines.extend(added("invite", &old.invites, &new.invites));
    lines
}

/// Who comes, who goes, and how many must agree.
pub fn quorum_changes(old: &Quorum, new: &Quorum) -> Vec<String> {
    let mut lines = Vec::new();
    for signer in new.signers().iter().filter(|signer| !old.signers().contains(signer)) {
        lines.push(format!("adds the signer `{}`, key {}", signer.name, signer.key));
    }
    for signer in old.signers().iter().filter(|signer| !new.signers().contains(signer)) {
        lines.push(format!("REMOVES the signer `{}`, key {}", signer.name, signer.key));
    }
    let (k, n) = (new.threshold(), new.signers().len());
    let (was_k, was_n) = (old.threshold(), old.signers().len());
    lines.push(format!("from then on {k} of {n} must agree (now {was_k} of {was_n})"));
    lines
}

fn invite_lines(invite: &Invite) -> Vec<String> {
    let list = |items: String, none: &str| if items.is_empty() { none.to_owned() } else { items };
    let rights: Vec<_> = invite.rights.iter().map(|right| format!("{} at `{}`", right.uses, right.gateway)).collect();
    vec![
        format!("lets machines join with invite {}", invite.id),
        format!("kind: {}{}", invite.kind, proof(invite)),
        format!("uses: {}", list(rights.join(" "), "none")),
        format!("until {}", invite.expires_at),
        format!("names: {}", list(joined(&invite.names, " "), "none")),
        format!("from: {}", list(joined(&invite.networks, " "), "anywhere")),
        format!("labels: {}", list(joined(&invite.labels, " "), "none")),
        format!("roles: {}", list(joined(&invite.roles, " "), "none")),
        format!("hosts: {}", list(joined(&invite.hosts, " "), "any")),
        match invite.approval {
            Approval::None => "nobody need look at the machines".to_owned(),
            Approval::Human => format!("{} operator(s) must look at each machine", invite.approvers),
        },
        format!("its maker calls it: {:?}", invite.label),
    ]
}

fn joined<'a, T: ToString + 'a>(all: impl IntoIterator<Item = &'a T>, by: &str) -> String {
    all.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(by)
}

/// What a signer should know about what it takes to get in.
fn proof(invite: &Invite) -> String {
    match (invite.kind, invite.key) {
        (InviteKind::Pattern, _) => ", LOW ASSURANCE: whoever claims such a name, which proves nothing".to_owned(),
        (InviteKind::Machine, Some(key)) => format!(", for the machine with the node key {}", key.digest()),
        _ => String::new(),
    }
}
