//! The ledger in words: who did what to whom, when, with what result.

pub mod survival;
pub mod hindsight;

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload as _};
use identity::head::{Cause, Grace, Head, TrustState, Turn};
use identity::id::{Correlation, Digest, Fingerprint, OrgId};
use identity::key::PublicKey;
use identity::principal::{Author, OrgName};
use identity::signers::{Recovery, Succession};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::founding::FoundingRecord;
use crate::invite::Invite;
use crate::invite::admission::{Claim, Leave};
use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::signers::Stance;
use crate::release::Release;
use crate::state::consent::Consent;
use crate::state::head::AHEAD;
use crate::state::{MemberRecord, State};
use crate::suspend::Suspension;

/// The result of what had its effect.
pub const DONE: &str = "done";

/// One line of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditLine {
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

/// What an entry says: of its gateway, or of the signers whose word it carries.
pub fn line(state: &State, signed: &SignedEntry) -> AuditLine {
    let (org, entry) = (state.org, &signed.entry);
    let taken = match &entry.action {
        Action::Take { envelope } => Some(envelope),
        Action::NodeAdmit { .. } | Action::NodeJoin { .. } | Action::NodeLeave { .. } => None,
    };
    let head = taken.and_then(|envelope| envelope.peek::<Head>(Some(org)).ok());
    let mut told = taken.map_or_else(|| tell_own(org, signed), |envelope| tell_taken(org, envelope));
    if let Some((from, to)) = head.as_ref().and_then(|head| set_back(state, head)) {
        (told.action, told.subject) = ("head.reset_clock", format!("{from} -> {to}"));
    }
    let turn = head.as_ref().and_then(|head| head.cause.turn());
    let named = head.as_ref().and_then(named_bundle);
    let bundle = taken.and_then(|envelope| envelope.peek::<BundleBody>(Some(org)).ok());
    let roots = named.and_then(|bundle| Some(state.bundle_named(bundle)?.body.sha256_fingerprint));
    let roots = roots.or_else(|| bundle.as_ref().map(|bundle| bundle.sha256_fingerprint));
    AuditLine {
        environment: (turn.is_some() || bundle.is_some()).then(|| state.name.clone()),
        roots,
        grace: turn.and_then(|turn| turn.grace),
        waived: turn.map(|turn| turn.waived.clone()).unwrap_or_default(),
        stolen_replaced_by: head.as_ref().and_then(theft),
        at: entry.at,
        actor: actor(state, taken, entry.voice),
        seq: entry.seq,
        action: told.action.to_owned(),
        subject: told.subject,
        version: told.version.0,
        replaces: told.version.1,
        fingerprint: told.fingerprint,
        correlation: entry.correlation,
        result: result(state, signed, taken),
    }
}

/// Who signed what it carries; for its own word, the gateway.
fn actor(state: &State, taken: Option<&Envelope>, voice: PublicKey) -> Author {
    let signers = || state.signer_sets().rev().flat_map(|set| set.quorum.signers());
    let signed = taken.and_then(|envelope| {
        let keys = envelope.signers_among(&signers().map(|signer| signer.key).collect());
        signers().find(|signer| keys.contains(&signer.key)).map(|signer| Author::Signer(signer.name.clone()))
    });
    let gateway = || state.judged.voices.get(&voice).cloned().map(Author::Gateway);
    signed.or_else(gateway).unwrap_or(Author::Voice(voice))
}

/// Did it have its effect? What does not count is a line, no failure.
fn result(state: &State, signed: &SignedEntry, taken: Option<&Envelope>) -> String {
    let not = |why: &dyn std::fmt::Display| format!("void: {why}");
    let done = || DONE.to_owned();
    if let Some(waiting) = state.judged.fold.waiting.get(&signed.digest) {
        let gone = waiting.claims.as_ref().is_some_and(|(_, key)| state.is_gone(*key));
        // It had its effect, until it was taken back.
        let had = matches!(waiting.why, Why::Judged(NotMember::Revoked | NotMember::Left)) || gone;
        if !had {
            return not(&waiting.why);
        }
    }
    let Some(envelope) = taken else {
        let nobody = matches!(&signed.entry.action, Action::NodeJoin { node_key, .. }
            if !state.members.contains_key(node_key) && !state.judged.fold.listed.contains_key(node_key));
        return if nobody { not(&"nobody was let in with that key") } else { done() };
    };
    let digest = envelope.digest();
    match envelope.kind() {
        Head::KIND if state.judged.ground.reached.contains(&digest) => done(),
        Head::KIND if state.judged.ground.rivals.iter().any(|rival| rival.digest == digest) => {
            "beside the head in force: only what it takes away counts".to_owned()
        }
        Head::KIND => not(&"the signers in force have not signed it, and their head does not follow it"),
        Succession::KIND | Recovery::KIND => match state.judged.signers.stance_of(digest) {
            Stance::Taken => done(),
            Stance::Waits { until } => format!("waits until {until}"),
            Stance::NotTaken => not(&"it does not lead to the signers in force"),
        },
        _ if state.signers_of_object(envelope).is_empty() => not(&"no signer of this org has signed it"),
        _ => done(),
    }
}

/// A head that was dated in the future is overruled by one with the right time.
fn set_back(state: &State, next: &Head) -> Option<(Timestamp, Timestamp)> {
    let before = next.previous.first().and_then(|before| state.head_named(*before))?.issued_at();
    (next.cause == Cause::Refresh && next.issued_at + AHEAD < before).then_some((before, next.issued_at))
}

/// The bundle whose fate a head decides.
fn named_bundle(head: &Head) -> Option<Digest> {
    let turn = head.cause.turn()?;
    let line = head.trust.iter().find(|it| it.domain == turn.domain && it.version == turn.version)?;
    Some(line.bundle)
}

/// What took the place of a root that was stolen.
fn theft(head: &Head) -> Option<u64> {
    let Cause::TrustRetire(turn) = &head.cause else { return None };
    let lines = || head.trust.iter().filter(|line| line.domain == turn.domain);
    let stolen = lines().any(|line| line.version == turn.version && line.distrusted);
    let active = lines().filter(|line| line.state == TrustState::Active).map(|line| line.version).max();
    active.filter(|_| stolen)
}

struct Told {
    action: &'static str,
    subject: String,
    version: (Option<u64>, Option<u64>),
    fingerprint: Digest,
}

fn plain(action: &'static str, subject: String, fingerprint: Digest) -> Told {
    Told { action, subject, version: (None, None), fingerprint }
}

fn unreadable() -> String {
    "unreadable".to_owned()
}

fn tell_own(org: OrgId, signed: &SignedEntry) -> Told {
    match &signed.entry.action {
        Action::NodeAdmit { claim, .. } => {
            let name = claim.peek::<Claim>(Some(org)).map_or_else(|_| unreadable(), |claim| claim.name.to_string());
            plain("node.admit", name, signed.digest)
        }
        Action::NodeJoin { node_key, name } => plain("node.join", name.to_string(), *node_key),
        Action::NodeLeave { leave, name } => {
            let key = leave.peek::<Leave>(Some(org)).map_or(leave.digest(), |leave| leave.node_key.digest());
            plain("node.leave", name.to_string(), key)
        }
        Action::Take { envelope } => plain("take", envelope.kind().to_owned(), envelope.digest()),
    }
}

fn tell_taken(org: OrgId, envelope: &Envelope) -> Told {
    let (org, digest) = (Some(org), envelope.digest());
    match envelope.kind() {
        FoundingRecord::KIND => plain("org.found", OrgId(digest.0).to_string(), digest),
        Head::KIND => envelope
            .peek(org)
            .map_or_else(|_| plain("head.publish", unreadable(), digest), |head| tell_head(&head, digest)),
        Succession::KIND | Recovery::KIND => {
            let own = envelope.peek::<Succession>(org).map(|body| body.version);
            let version = own.or_else(|_| envelope.peek::<Recovery>(org).map(|body| body.version)).ok();
            let action = if envelope.kind() == Recovery::KIND { "recovery.begin" } else { "signers.sign" };
            let version = (version, version.and_then(|version| version.checked_sub(1)));
            Told { action, subject: "signers".to_owned(), version, fingerprint: digest }
        }
        BundleBody::KIND => {
            let body = envelope.peek::<BundleBody>(org).ok();
            let subject = body.as_ref().map_or_else(unreadable, |body| body.domain.word().to_owned());
            let version = body.map_or((None, None), |body| (Some(body.trust_bundle_version), body.replaces_version));
            Told { action: "bootstrap_trust.publish", subject, version, fingerprint: digest }
        }
        Release::KIND => {
            let number = envelope.peek::<Release>(org).ok().map(|release| release.number);
            let replaces = number.filter(|number| *number > 1).map(|number| number - 1);
            Told {
                action: "release.sign",
                subject: "agents".to_owned(),
                version: (number, replaces),
                fingerprint: digest,
            }
        }
        Invite::KIND => {
            let id = envelope.peek::<Invite>(org).map_or_else(|_| unreadable(), |body| body.id.to_string());
            plain("invite.create", id, digest)
        }
        Waiver::KIND => {
            let names = |body: Waiver| body.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            plain("invite.approve", envelope.peek::<Waiver>(org).map_or_else(|_| unreadable(), names), digest)
        }
        Decision::KIND => {
            let body = envelope.peek::<Decision>(org).ok();
            let denied = body.as_ref().is_some_and(|body| body.verdict == Verdict::Deny);
            let about = body.map_or_else(unreadable, |body| body.about.to_string());
            plain(if denied { "node.deny" } else { "node.approve" }, about, digest)
        }
        Suspension::KIND => {
            let name = envelope.peek::<Suspension>(org).map_or_else(|_| unreadable(), |body| body.name.to_string());
            plain("node.suspend", name, digest)
        }
        Consent::KIND => {
            let name = envelope.peek::<Consent>(org).map_or_else(|_| unreadable(), |body| body.name.to_string());
            plain("manifest.confirm", name, digest)
        }
        _ => plain("take", envelope.kind().to_owned(), digest),
    }
}

fn tell_head(head: &Head, fingerprint: Digest) -> Told {
    let turned = |action, turn: &Turn| {
        let version = (Some(turn.version), turn.replaces);
        Told { action, subject: turn.domain.word().to_owned(), version, fingerprint }
    };
    let before = |version: u64| version.checked_sub(1).filter(|before| *before > 0);
    let (action, subject) = match &head.cause {
        Cause::TrustPublish(turn) => return turned("bootstrap_trust.publish", turn),
        Cause::TrustActivate(turn) => return turned("bootstrap_trust.activate", turn),
        Cause::TrustRollback(turn) => return turned("bootstrap_trust.rollback", turn),
        Cause::TrustRetire(turn) => return turned("bootstrap_trust.retire", turn),
        Cause::ReleasePublish { number } => {
            let version = (Some(*number), before(*number));
            return Told { action: "release.publish", subject: "agents".to_owned(), version, fingerprint };
        }
        Cause::SignersInstall => {
            let version = (Some(head.signers.version), before(head.signers.version));
            return Told { action: "signers.install", subject: "signers".to_owned(), version, fingerprint };
        }
        Cause::Founding => ("head.publish", "founding".to_owned()),
        Cause::Refresh => ("head.refresh", "head".to_owned()),
        Cause::NodeRevoke { name, .. } => ("node.revoke", name.to_string()),
        Cause::NodeList { name, .. } => ("node.list", name.to_string()),
        Cause::InviteRevoke { invite } => ("invite.revoke", invite.to_string()),
        Cause::MandateChange { gateway } => ("mandate.change", gateway.to_string()),
        Cause::GatewayAdd { gateway } => ("gateway.add", gateway.to_string()),
        Cause::GatewayMove { gateway } => ("gateway.move", gateway.to_string()),
        Cause::GatewayRemove { gateway } => ("gateway.remove", gateway.to_string()),
        Cause::GatewayReopen { gateway } => ("gateway.reopen", gateway.to_string()),
        Cause::FleetPublish => ("fleet.publish", "fleet".to_owned()),
        Cause::FleetRollback { to } => ("fleet.rollback", format!("head {to}")),
        Cause::PrincipalRevoke { principal } => ("principal.revoke", principal.to_string()),
    };
    Told { action, subject, version: (Some(head.version), before(head.version)), fingerprint }
}

impl AuditLine {
    /// What a person should know of it; nothing where it was simply done.
    pub fn remark(&self) -> Option<String> {
        match (self.result == DONE, self.stolen_replaced_by) {
            (true, Some(version)) => Some(format!("its root was STOLEN, version {version} took its place")),
            (true, None) => None,
            (false, _) => Some(self.result.clone()),
        }
    }

    /// Whether the line is about `subject`: its own subject, its actor, or the invite behind an admission.
    pub fn concerns(&self, subject: &str, state: &State) -> bool {
        let by_invite = || {
            let through = |member: &MemberRecord| member.admission.invite.is_some_and(|id| id.to_string() == subject);
            let here = |member: &MemberRecord| member.claim().name.as_str() == self.subject;
            self.action.starts_with("node.") && state.members.values().any(|member| here(member) && through(member))
        };
        self.subject == subject || self.actor.to_string() == subject || by_invite()
    }
}
