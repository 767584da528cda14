//! The ledger in words: who did what to whom, when, with what result.

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload as _};
use identity::head::{Grace, Head};
use identity::id::{Correlation, Digest, Fingerprint, OrgId};
use identity::principal::{Author, OrgName};
use identity::signers::{Recovery, Succession};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admission::{Admission, Claim, Leave};
use crate::approve::{Decision, Verdict, Waiver};
use crate::entry::{Action, Cause, SignedEntry, Turn};
use crate::head::AHEAD;
use crate::invite::Invite;
use crate::release::Release;
use crate::restore::Confirmation;
use crate::state::{MemberRecord, State};

/// The result of what had its effect.
pub const DONE: &str = "done";

/// One line of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub at: Timestamp,
    pub actor: Author,
    pub seq: u64,
    pub action: String,
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<u64>,
    /// Digest of the object that was signed.
    pub fingerprint: Digest,
    pub correlation: Correlation,
    /// Of trust bundles: the org and the roots that it is about, and how long the former ones stay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub environment: Option<OrgName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub roots: Option<Fingerprint>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grace: Option<Grace>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waived: Vec<String>,
    /// The root was stolen: this version took the place of all that were trusted, at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stolen_replaced_by: Option<u64>,
    /// `done`, or why it had no effect.
    pub result: String,
}

pub fn line(state: &State, signed: &SignedEntry) -> Line {
    let entry = &signed.entry;
    let mut told = tell(state.org, &entry.action);
    if let Some((from, to)) = set_back(state, &entry.action) {
        (told.action, told.subject) = ("head.reset_clock", format!("{from} -> {to}"));
    }
    let trust = trusting(state, &entry.action);
    Line {
        environment: trust.as_ref().map(|_| state.name.clone()),
        roots: trust.as_ref().and_then(|(roots, _)| *roots),
        grace: trust.and_then(|(_, turn)| turn?.grace),
        waived: trust.and_then(|(_, turn)| Some(turn?.waived.clone())).unwrap_or_default(),
        stolen_replaced_by: theft(state.org, &entry.action),
        at: entry.at,
        actor: entry.author.clone(),
        seq: entry.seq,
        action: told.action.to_owned(),
        subject: told.subject,
        version: told.version.0,
        replaces: told.version.1,
        fingerprint: told.fingerprint,
        correlation: entry.correlation,
        result: state.void.get(&signed.digest).map_or_else(|| DONE.to_owned(), |void| format!("void: {void}")),
    }
}

/// A head that was dated in the future is overruled by one with the right time.
fn set_back(state: &State, action: &Action) -> Option<(Timestamp, Timestamp)> {
    let Action::HeadPublish { head, cause: Cause::Refresh } = action else {
        return None;
    };
    let next: Head = head.peek(Some(state.org)).ok()?;
    let before = state.heads_at(next.version.checked_sub(1)?).next()?.head.issued_at;
    (next.issued_at + AHEAD < before).then_some((before, next.issued_at))
}

/// Of which roots an entry speaks, if it is about trust, and what becomes of them.
fn trusting<'a>(state: &State, action: &'a Action) -> Option<(Option<Fingerprint>, Option<&'a Turn>)> {
    let named = |turn: &Turn| {
        let head: Head = action.head()?.peek(Some(state.org)).ok()?;
        let line = head.trust.into_iter().find(|it| it.domain == turn.domain && it.version == turn.version)?;
        Some(state.bundle_named(line.bundle)?.body.sha256_fingerprint)
    };
    match action {
        Action::TrustPublish { bundle, .. } => {
            let body = bundle.peek::<BundleBody>(Some(state.org)).ok();
            Some((body.map(|body| body.sha256_fingerprint), None))
        }
        Action::TrustActivate { turn, .. } | Action::TrustRollback { turn, .. } | Action::TrustRetire { turn, .. } => {
            Some((named(turn), Some(turn)))
        }
        _ => None,
    }
}

/// What took the place of a root that was stolen: only such a retirement brings a bundle along.
fn theft(org: OrgId, action: &Action) -> Option<u64> {
    let Action::TrustRetire { bundle: Some(bundle), .. } = action else { return None };
    bundle.peek::<BundleBody>(Some(org)).ok().map(|body| body.trust_bundle_version)
}

struct Told {
    action: &'static str,
    subject: String,
    version: (Option<u64>, Option<u64>),
    fingerprint: Digest,
}

fn turned(action: &'static str, turn: &Turn, head: &Envelope) -> Told {
    let version = (Some(turn.version), turn.replaces);
    Told { action, subject: turn.domain.word().to_owned(), version, fingerprint: head.digest() }
}

fn tell(org: OrgId, action: &Action) -> Told {
    let unreadable = || "unreadable".to_owned();
    let plain = |action, subject, fingerprint| Told { action, subject, version: (None, None), fingerprint };
    match action {
        Action::OrgFound { founding } => plain("org.found", org.to_string(), founding.digest()),
        Action::SignersInstall { signers, .. } => {
            let own = signers.peek::<Succession>(Some(org)).map(|body| body.version);
            let version = own.or_else(|_| signers.peek::<Recovery>(Some(org)).map(|body| body.version)).ok();
            Told {
                action: if signers.kind() == Recovery::KIND { "signers.recover" } else { "signers.install" },
                subject: "signers".to_owned(),
                version: (version, version.and_then(|version| version.checked_sub(1))),
                fingerprint: signers.digest(),
            }
        }
        Action::RecoveryBegin { recovery } => {
            let version = recovery.peek::<Recovery>(Some(org)).ok().map(|body| body.version);
            let replaces = version.and_then(|version| version.checked_sub(1));
            let (subject, fingerprint) = ("signers".to_owned(), recovery.digest());
            Told { action: "recovery.begin", subject, version: (version, replaces), fingerprint }
        }
        Action::TrustActivate { head, turn } => turned("bootstrap_trust.activate", turn, head),
        Action::TrustRollback { head, turn, .. } => turned("bootstrap_trust.rollback", turn, head),
        Action::TrustRetire { head, turn, .. } => turned("bootstrap_trust.retire", turn, head),
        Action::TrustPublish { bundle, .. } => {
            let body = bundle.peek::<BundleBody>(Some(org)).ok();
            Told {
                action: "bootstrap_trust.publish",
                subject: body.as_ref().map_or_else(unreadable, |body| body.domain.word().to_owned()),
                version: body.map_or((None, None), |body| (Some(body.trust_bundle_version), body.replaces_version)),
                fingerprint: bundle.digest(),
            }
        }
        Action::HeadPublish { head, cause } => {
            let version = head.peek::<Head>(Some(org)).ok().map(|head| head.version);
            let (action, subject) = match cause {
                Cause::Founding => ("head.publish", "founding".to_owned()),
                Cause::Refresh => ("head.refresh", "head".to_owned()),
                Cause::NodeRevoke { name, .. } => ("node.revoke", name.to_string()),
                Cause::InviteRevoke { invite } => ("invite.revoke", invite.to_string()),
                Cause::MandateChange { gateway } => ("mandate.change", gateway.to_string()),
                Cause::GatewayAdd { gateway } => ("gateway.add", gateway.to_string()),
                Cause::GatewayMove { gateway } => ("gateway.move", gateway.to_string()),
                Cause::GatewayRemove { gateway } => ("gateway.remove", gateway.to_string()),
                Cause::Restore => ("org.restore", "ledger".to_owned()),
                Cause::FleetPublish => ("fleet.publish", "fleet".to_owned()),
                Cause::FleetRollback { to } => ("fleet.rollback", format!("head {to}")),
                Cause::PrincipalRevoke { principal } => ("principal.revoke", principal.to_string()),
            };
            let replaces = version.filter(|version| *version > 1).map(|version| version - 1);
            Told { action, subject, version: (version, replaces), fingerprint: head.digest() }
        }
        Action::ReleasePublish { release, .. } => {
            let number = release.peek::<Release>(Some(org)).ok().map(|release| release.number);
            let replaces = number.filter(|number| *number > 1).map(|number| number - 1);
            let (subject, fingerprint) = ("agents".to_owned(), release.digest());
            Told { action: "release.publish", subject, version: (number, replaces), fingerprint }
        }
        Action::InviteCreate { invite } => {
            let body = invite.peek::<Invite>(Some(org)).ok();
            plain("invite.create", body.map_or_else(unreadable, |body| body.id.to_string()), invite.digest())
        }
        Action::InviteConfirm { confirmation } => {
            let body = confirmation.peek::<Confirmation>(Some(org)).ok();
            let ids = |body: Confirmation| body.invites.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            plain("invite.confirm", body.map_or_else(unreadable, ids), confirmation.digest())
        }
        Action::ManifestConfirm { consent, name } => plain("manifest.confirm", name.to_string(), consent.digest()),
        Action::NodeApprove { decision, name } => {
            let denied = decision.peek::<Decision>(Some(org)).is_ok_and(|body| body.verdict == Verdict::Deny);
            plain(if denied { "node.deny" } else { "node.approve" }, name.to_string(), decision.digest())
        }
        Action::InviteApprove { waiver } if waiver.kind() == Decision::KIND => {
            let about = waiver.peek::<Decision>(Some(org)).map_or_else(|_| unreadable(), |body| body.about.to_string());
            plain("invite.unapprove", about, waiver.digest())
        }
        Action::InviteApprove { waiver } => {
            let names = |body: Waiver| body.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let body = waiver.peek::<Waiver>(Some(org)).ok();
            plain("invite.approve", body.map_or_else(unreadable, names), waiver.digest())
        }
        Action::NodeSuspend { suspension, name } => plain("node.suspend", name.to_string(), suspension.digest()),
        Action::NodeAdmit { admission } => {
            let claim = admission.peek::<Admission>(Some(org)).and_then(|body| body.claim.peek::<Claim>(Some(org)));
            plain("node.admit", claim.map_or_else(|_| unreadable(), |claim| claim.name.to_string()), admission.digest())
        }
        Action::NodeJoin { node_key, name } => plain("node.join", name.to_string(), *node_key),
        Action::NodeLeave { leave, name } => {
            let key = leave.peek::<Leave>(Some(org)).map_or(leave.digest(), |leave| leave.node_key.digest());
            plain("node.leave", name.to_string(), key)
        }
    }
}

impl Line {
    /// What came of it, for a person.
    pub fn outcome(&self) -> String {
        match self.stolen_replaced_by.filter(|_| self.result == DONE) {
            Some(version) => format!("{DONE}; its root was STOLEN, version {version} took its place"),
            None => self.result.clone(),
        }
    }

    /// Whether the line is about `subject`: its own subject, its actor, or the invite behind an admission.
    pub fn concerns(&self, subject: &str, state: &State) -> bool {
        let by_invite = || {
            let through = |member: &MemberRecord| member.admission.invite().is_some_and(|id| id.to_string() == subject);
            let here = |member: &MemberRecord| member.claim().name.as_str() == self.subject;
            self.action.starts_with("node.") && state.members.values().any(|member| here(member) && through(member))
        };
        self.subject == subject || self.actor.to_string() == subject || by_invite()
    }
}
