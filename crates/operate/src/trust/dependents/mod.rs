//! Impact analysis: what a turn of trust would break, and why. Decides only: what is so was read before.
//!
//! To break is to be unable to go on without help, or without coming home first. A machine that knows the org comes home
//! by itself once it reaches a gateway, since the head is signed; until then it is cut off, and so it is named.

mod broken;
pub mod look;

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::{Bundle, Domain, InDomain};
use identity::certificate;
use identity::head::{Head, Mandate, Placement, TrustLine};
use identity::id::{Fingerprint, InviteId, KeyId};
use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::time::{Seconds, Timestamp};
use identity::trust::{self, BadStep, TrustStep};
use org::invite::InviteKind;
use org::report::{DomainTold, SvidTold, TOLD};
use pki_types::CertificateDer;

use broken::tell_apart;
pub use broken::{Break, DependentKind};

use crate::trust::adopted::TrustStance;
use crate::trust::issuers::issuing_key;

/// After so long without a certificate a machine comes home only with an operator's word.
const COMES_BY_ITSELF: Seconds = Seconds::DAY.times(365);

/// What the question is asked of: one domain, as it was read a moment ago.
#[derive(Debug, Clone)]
pub struct Scene {
    pub domain: Domain,
    pub head: Head,
    /// Every version of the domain.
    pub held: Vec<TrustVersion>,
    pub members: Vec<TrustStance>,
    pub invites: Vec<LiveInvite>,
    /// Machines that wait for a person, and the endpoint root that each knows.
    pub waiting: Vec<(NodeName, Fingerprint)>,
    /// Certificates of issuing keys that gateways tell of.
    pub issued: Vec<(KeyId, CertificateDer<'static>)>,
    /// No gateway answers: what members and gateways said of themselves is not known.
    pub alone: bool,
    pub now: Timestamp,
}

/// A version, as far as it matters here.
#[derive(Debug, Clone)]
pub struct TrustVersion {
    pub version: u64,
    pub roots: Vec<CertificateDer<'static>>,
    /// Issuing keys that have a certificate in it, and when it ends.
    pub issuers: BTreeMap<KeyId, Timestamp>,
}

impl TrustVersion {
    pub fn of<D: InDomain>(version: u64, bundle: &Bundle<D>) -> Self {
        let mut issuers = BTreeMap::new();
        for der in &bundle.body().issuers {
            if let Ok(reading) = certificate::read(&CertificateDer::from(der.0.as_slice())) {
                let until = issuers.entry(reading.key).or_insert(reading.validity.not_after);
                *until = reading.validity.not_after.max(*until);
            }
        }
        Self { version, roots: bundle.roots().certificates().to_vec(), issuers }
    }

    fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.roots.iter().map(|root| Fingerprint::of_certificate(root.as_ref()))
    }
}

/// An invite that somebody could still come with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveInvite {
    pub id: InviteId,
    pub label: String,
    pub kind: InviteKind,
    /// The endpoint root that its code, file or image pins.
    pub root: Fingerprint,
    pub expires_at: Timestamp,
}

/// What would be so.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Every line of the head, after it.
    pub lines: Vec<TrustLine>,
    /// Roots that would be trusted no more.
    pub going: Vec<Fingerprint>,
    pub breaks: Vec<Break>,
    /// Who may break or not: only a gateway knows.
    pub unknown: Vec<Break>,
}

/// What names that were waived leave to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaiveOutcome<'a> {
    /// What would break and is not named.
    pub open: Vec<&'a Break>,
    /// What was named and would not break.
    pub idle: Vec<String>,
    /// Beginnings that several ids have.
    pub several: Vec<String>,
}

impl Outcome {
    pub fn waive(&self, names: &[String]) -> WaiveOutcome<'_> {
        let many = |name: &&String| self.breaks.iter().filter(|it| it.begins(name)).count() > 1;
        let (several, clear): (Vec<_>, Vec<_>) = names.iter().partition(many);
        WaiveOutcome {
            open: self.breaks.iter().filter(|it| !clear.iter().any(|name| it.is_called(name))).collect(),
            idle: clear
                .iter()
                .filter(|name| !self.breaks.iter().any(|it| it.is_called(name)))
                .copied()
                .cloned()
                .collect(),
            several: several.into_iter().cloned().collect(),
        }
    }
}

/// What a step would lead to. The new version of a step that brings one is given beside it.
pub fn outcome(scene: &Scene, step: TrustStep, brought: Option<&TrustVersion>) -> Result<Outcome, BadStep> {
    let (domain, before) = (scene.domain, &scene.head.trust);
    let lines = trust::step(before, domain, step, scene.now)?;
    let held = |lines: &[TrustLine]| -> Vec<TrustVersion> {
        let trusted = lines.iter().filter(|line| line.domain == domain && line.state.is_trusted());
        let all = || scene.held.iter().chain(brought);
        trusted.filter_map(|line| all().find(|held| held.version == line.version).cloned()).collect()
    };
    let (was, stays) = (held(before), held(&lines));
    let staying: BTreeSet<Fingerprint> = stays.iter().flat_map(TrustVersion::fingerprints).collect();
    let mut going: Vec<Fingerprint> = was.iter().flat_map(TrustVersion::fingerprints).collect();
    going.retain(|root| !staying.contains(root));
    let look = Look {
        scene,
        stays: &stays,
        staying: &staying,
        going: &going,
        replaces: matches!(step, TrustStep::Replace { .. }),
    };
    let mut breaks = match step {
        TrustStep::Publish { .. } => look.untold_gateways(),
        TrustStep::Activate { version, .. } => {
            let behind = scene.members.iter().filter_map(|member| look.lacks(member, version));
            look.gateways(&[version]).into_iter().chain(behind).collect()
        }
        TrustStep::Rollback { .. } | TrustStep::Retire { .. } | TrustStep::Replace { .. } => look.all(),
    };
    breaks.sort();
    breaks.dedup();
    tell_apart(&mut breaks);
    let (unknown, breaks) = breaks.into_iter().partition(|it| scene.alone && !it.kind.is_in_ledger());
    Ok(Outcome { lines, going, breaks, unknown })
}

/// One look at a scene, with what would stay and what would go.
struct Look<'a> {
    scene: &'a Scene,
    stays: &'a [TrustVersion],
    staying: &'a BTreeSet<Fingerprint>,
    going: &'a [Fingerprint],
    /// A root was stolen: nobody can have the new one yet.
    replaces: bool,
}

impl Look<'_> {
    fn all(&self) -> Vec<Break> {
        let versions: Vec<u64> = self.stays.iter().map(|held| held.version).collect();
        let mut breaks = self.gateways(&versions);
        if self.going.is_empty() {
            return breaks;
        }
        breaks.extend(self.scene.members.iter().filter_map(|member| self.node(member)));
        match self.scene.domain {
            Domain::Endpoint => breaks.extend(self.newcomers()),
            Domain::Identity => {
                breaks.extend(self.scene.members.iter().flat_map(|member| self.certificates(member)));
                breaks.extend(self.untold());
            }
        }
        breaks
    }

    /// Gateways whose issuing key leads to none of these versions.
    fn gateways(&self, versions: &[u64]) -> Vec<Break> {
        let held: Vec<&TrustVersion> = self.stays.iter().filter(|held| versions.contains(&held.version)).collect();
        let named: Vec<_> = versions.iter().map(ToString::to_string).collect();
        let cut = self.mandates().filter(|(_, key)| !held.iter().any(|held| self.leads(*key, held)));
        cut.map(|(mandate, key)| {
            let ended = held.iter().filter_map(|held| held.issuers.get(&key)).max();
            let what = match ended {
                Some(at) => format!("its issuing key's certificate ended at {at} under"),
                None => "its issuing key has no certificate under".to_owned(),
            };
            let so = match self.scene.domain {
                Domain::Endpoint => "nobody who trusts only those would find it",
                Domain::Identity => "what it issues would be worth nothing",
            };
            let why = format!("{what} the roots of version {}: {so}", named.join(" or "));
            Break { kind: DependentKind::Gateway, name: mandate.gateway.to_string(), why }
        })
        .collect()
    }

    /// Gateways whose issuing key nobody could certify under a new root, since it was not told.
    fn untold_gateways(&self) -> Vec<Break> {
        let told = |key: KeyId| {
            self.scene.issued.iter().any(|(known, _)| *known == key)
                || self.scene.held.iter().any(|held| held.issuers.contains_key(&key))
        };
        let untold = self.mandates().filter(|(_, key)| !told(*key));
        untold
            .map(|(mandate, _)| Break {
                kind: DependentKind::Gateway,
                name: mandate.gateway.to_string(),
                why: "it has not told its issuing key: no certificate under the new root can be made for it".to_owned(),
            })
            .collect()
    }

    fn mandates(&self) -> impl Iterator<Item = (&Mandate, KeyId)> {
        let active = self.scene.head.mandates.iter().filter(|mandate| mandate.is_active(self.scene.now));
        active.map(|mandate| (mandate, issuing_key(mandate, self.scene.domain)))
    }

    fn leads(&self, key: KeyId, held: &TrustVersion) -> bool {
        let own: Vec<_> = self.scene.issued.iter().filter(|(known, _)| *known == key).collect();
        let live = |der: &CertificateDer<'static>| {
            certificate::read(der).is_ok_and(|reading| reading.validity.not_after > self.scene.now)
        };
        let under = |der| held.roots.iter().any(|root| certificate::is_signed_by(der, root));
        held.issuers.get(&key).is_some_and(|until| *until > self.scene.now)
            || own.iter().any(|(_, der)| live(der) && under(der))
            // The founders' version names no issuers: keys got their certificates with their mandates.
            || (own.is_empty() && held.issuers.is_empty())
    }

    /// A member that goes by none of the roots that stay.
    fn node(&self, member: &TrustStance) -> Option<Break> {
        let told = member.told(self.scene.domain);
        let has = |told: &DomainTold| -> Vec<&TrustVersion> {
            self.scene.held.iter().filter(|held| told.has(held.version)).collect()
        };
        let stays = |held: &&TrustVersion| held.fingerprints().any(|root| self.staying.contains(&root));
        if told.is_some_and(|told| has(told).iter().any(stays)) {
            return None;
        }
        // Nobody can have what takes a stolen one's place; who is there gets it at once.
        if self.replaces && told.is_some() && member.off_since(self.scene.now).is_none() {
            return None;
        }
        let alone = |told: &DomainTold| {
            let versions: Vec<_> = has(told).iter().map(|held| held.version.to_string()).collect();
            format!("it goes by version {} alone", versions.join(", "))
        };
        Some(self.behind(member, alone))
    }

    /// A member that has not taken a version over.
    fn lacks(&self, member: &TrustStance, version: u64) -> Option<Break> {
        let told = member.told(self.scene.domain);
        if told.is_some_and(|told| told.has(version)) {
            return None;
        }
        let words = |told: &DomainTold| match told.trial {
            Some(trial) if trial == version => format!("it tries version {version}"),
            _ => format!("it has not adopted version {version}"),
        };
        Some(self.behind(member, words))
    }

    /// Why a member is behind, and what becomes of it.
    fn behind(&self, member: &TrustStance, words: impl FnOnce(&DomainTold) -> String) -> Break {
        let (now, told) = (self.scene.now, member.told(self.scene.domain));
        let never = "it never said which roots it goes by: its agent";
        let why = match (&member.agent, told) {
            (None, _) => format!("{never} never ran"),
            (Some(agent), None) => format!("{never} {agent} is too old for that"),
            (Some(_), Some(told)) => words(told),
        };
        let refused = told.and_then(|told| told.refused.as_ref());
        let refused = refused.map(|refused| format!("it went back at {}: {}", refused.at, refused.why));
        let too_long = member.svid_expires_at.is_some_and(|ended| ended + COMES_BY_ITSELF < now);
        let home = match (too_long, self.scene.domain) {
            (true, _) => "its certificate ended over a year ago, so it needs an operator's word to come home",
            (false, Domain::Endpoint) => "it comes home by the signed head when it is back",
            (false, Domain::Identity) => "it comes home by its node key when it is back",
        };
        let off = match (member.off_since(now), member.last_seen) {
            (Some(since), _) => Some(format!("offline since {since}: {home}")),
            (None, Some(seen)) => Some(format!("last seen at {seen}")),
            (None, None) => None,
        };
        let why = std::iter::once(why).chain(refused).chain(off).collect::<Vec<_>>().join("; ");
        Break { kind: DependentKind::Node, name: member.name.to_string(), why }
    }

    /// Certificates on a member that lead to none of the roots that stay.
    fn certificates(&self, member: &TrustStance) -> Vec<Break> {
        let now = self.scene.now;
        let off = member.off_since(now);
        // Who is there gets new ones by its node key at once.
        if self.replaces && off.is_none() {
            return Vec::new();
        }
        let svids = member.trust.iter().flat_map(|trust| &trust.svids);
        let cut =
            svids.filter(|svid| now < svid.not_after && !svid.roots.iter().any(|root| self.staying.contains(root)));
        cut.map(|svid| {
            let off = off.map(|since| format!("; `{}` is offline since {since}", member.name)).unwrap_or_default();
            let why = format!("its certificate leads only to {}, until {}{off}", self.roots(svid), svid.not_after);
            let (kind, name) = called(&svid.principal, &member.name);
            Break { kind, name, why }
        })
        .collect()
    }

    fn roots(&self, svid: &SvidTold) -> String {
        let versions = self.scene.held.iter().filter(|held| held.fingerprints().any(|root| svid.roots.contains(&root)));
        let versions: Vec<_> = versions.map(|held| held.version.to_string()).collect();
        if versions.is_empty() { "no root".to_owned() } else { format!("the root of version {}", versions.join(", ")) }
    }

    /// Services and users of nodes that said nothing, or not all: a report tells of so many certificates and no more.
    fn untold(&self) -> Vec<Break> {
        let untold = |placed: &Placement| {
            let node = &placed.node;
            let member = self.scene.members.iter().find(|member| member.name == *node)?;
            match &member.trust {
                None => Some(format!("its certificate is on `{node}`, which never said where it leads")),
                Some(told) if told.svids.len() < TOLD => None,
                Some(told) if told.svids.iter().any(|svid| svid.principal == placed.principal) => None,
                Some(_) => Some(format!("its certificate is on `{node}`, which tells of {TOLD} and no more")),
            }
        };
        let named = self.scene.head.placements.iter().filter_map(|placed| Some((placed, untold(placed)?)));
        named
            .map(|(Placement { principal, node }, why)| {
                let (kind, name) = called(principal, node);
                Break { kind, name, why }
            })
            .collect()
    }

    /// Machines that are to come, and know the org by a root that goes.
    fn newcomers(&self) -> Vec<Break> {
        let pinned = self.scene.invites.iter().filter(|invite| self.going.contains(&invite.root));
        let invites = pinned.map(|invite| {
            let (kind, what) = match invite.kind {
                InviteKind::Token | InviteKind::Pattern => (DependentKind::Invite, "its code pins"),
                InviteKind::Bundle | InviteKind::Machine => {
                    (DependentKind::BundleFile, "the file that was made of it pins")
                }
                InviteKind::Key => (DependentKind::Image, "images with its key pin"),
            };
            let label = if invite.label.is_empty() { String::new() } else { format!("\"{}\": ", invite.label) };
            let why =
                format!("{label}{what} the root {}, and it is good until {}", short(invite.root), invite.expires_at);
            Break { kind, name: invite.id.to_string(), why }
        });
        let waiting = self.scene.waiting.iter().filter(|(_, root)| self.going.contains(root));
        let waiting = waiting.map(|(name, root)| Break {
            kind: DependentKind::Waiting,
            name: name.to_string(),
            why: format!("it waits for a person, with a code that pins the root {}", short(*root)),
        });
        invites.chain(waiting).collect()
    }
}

fn called(principal: &Principal, node: &NodeName) -> (DependentKind, String) {
    let name = principal.name();
    match principal.kind() {
        PrincipalKind::Node => (DependentKind::Certificate, name.to_owned()),
        PrincipalKind::Service => (DependentKind::Service, format!("service/{name}@{node}")),
        PrincipalKind::User => (DependentKind::User, format!("user/{name}@{node}")),
    }
}

/// As much of a fingerprint as people compare.
fn short(root: Fingerprint) -> String {
    root.to_string().chars().take(16).collect()
}

#[cfg(test)]
mod tests;
