//! The roots in an agent's day: taken with the head, tried, told; and SVIDs that lead to all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use ground::clock;
use identity::bundle::{Bundle, Domain, Identity, Roots};
use identity::causes::describe;
use identity::certificate;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use identity::verifier::{self, Side, Standard, Untrusted};
use manifest::stored::Confirm;
use pki_types::CertificateDer;
use wire::known::Known;

use crate::agent::schedule::Event;
use crate::agent::{Agent, Line};
use crate::apply::engine::Urge;
use crate::apply::trial::Outcome;
use crate::apply::trust::{Trusting, Trying};
use crate::apply::unfit::Unfit;
use crate::ask::error::AskError;
use crate::ask::keep::{self, Both};
use crate::ask::trust::{self, RootProbe};
use crate::store::scope::{Scope, ScopeError, Svid};

/// What the agent remembers of roots beside what is on the disk.
#[derive(Debug, Default)]
pub(super) struct Care {
    /// The head whose roots were offered.
    head: Option<Digest>,
    on_trial: bool,
    /// Why the last attempt did not work, for each domain.
    endpoint: Option<Unfit>,
    identity: Option<Unfit>,
    problem: Option<String>,
    /// When SVIDs that lead to too few roots are renewed.
    reissue_at: Option<Timestamp>,
    /// Who could not do better when it was asked, and by which head.
    best: BTreeMap<Principal, (Digest, NodeName)>,
}

impl Agent {
    /// A start costs what is on trial some of its time.
    pub(super) fn start_trust(scope: &Scope, known: &Known) -> Result<Care, ScopeError> {
        let now = known.now(clock::now());
        let mut both = Both::open(scope, known, now)?;
        if both.is_on_trial() {
            both.endpoint.restarted(now)?;
            both.identity.restarted(now)?;
        }
        if let Err(why) = keep::follow(scope, known) {
            tracing::error!(why = describe(&why), "the roots that other programs read could not be written");
        }
        Ok(Care { on_trial: both.is_on_trial(), ..Care::default() })
    }

    pub(super) const fn trust_is_on_trial(&self) -> bool {
        self.trust.on_trial
    }

    pub(super) fn trust_problem(&self) -> Option<String> {
        self.trust.problem.clone()
    }

    pub(super) const fn reissue_at(&self) -> Option<Timestamp> {
        self.trust.reissue_at
    }

    /// Goes back when its time is over, whether or not a gateway answers.
    pub(super) fn tick_trust(&mut self) {
        if !self.trust.on_trial {
            return;
        }
        let ticked = || -> Result<(bool, bool), ScopeError> {
            let Some(known) = self.scope.known()? else { return Ok((false, false)) };
            let (head, now) = (&known.head.head, known.now(clock::now()));
            let mut both = Both::open(&self.scope, &known, now)?;
            let endpoint = both.endpoint.lapse(self.trust.endpoint.clone(), now)?;
            let identity = both.identity.lapse(self.trust.identity.clone(), now)?;
            both.endpoint.settle(&self.scope, head)?;
            both.identity.settle(&self.scope, head)?;
            Ok((both.is_on_trial(), endpoint == Outcome::WentBack || identity == Outcome::WentBack))
        };
        match ticked() {
            Ok((on_trial, went_back)) => {
                self.trust.on_trial = on_trial;
                if went_back {
                    self.schedule.note(Event::Roused, clock::now());
                }
            }
            Err(why) => self.trust.problem = Some(describe(&why)),
        }
    }

    /// Takes what the head trusts, and tries what is new of it. What fails here does not keep the node from the rest.
    pub(super) async fn keep_trust(&mut self, line: &mut Line) {
        let errand = self.errand.as_ref().map(|asked| &asked.errand);
        if errand.is_some_and(|errand| errand.dry_run) {
            return;
        }
        let urge = errand.and_then(crate::agent::errand::Errand::urge);
        let known = line.known.clone();
        let kept = async {
            if self.trust.head != Some(known.head.digest) || urge.is_some() {
                let trying = self.trying(urge);
                trust::take(&self.scope, &mut line.gateway, &known, trying).await?;
                self.order_svids(&known)?;
                (self.trust.endpoint, self.trust.identity) = (None, None);
                self.trust.head = Some(known.head.digest);
            }
            self.try_trust(&known).await
        };
        let kept = kept.await;
        self.note_trust(kept);
    }

    /// As `keep_trust`, with what a tree holds. Where the fleet says `offline` nobody can be reached, and it is taken at
    /// once; else it is tried at a gateway as always.
    pub(super) async fn keep_given_trust(&mut self, known: &Known, given: &[Envelope]) {
        let errand = self.errand.as_ref().map(|asked| &asked.errand);
        if errand.is_some_and(|errand| errand.dry_run) {
            return;
        }
        let urge = errand.and_then(crate::agent::errand::Errand::urge);
        let kept = async {
            if self.trust.head != Some(known.head.digest) || urge.is_some() {
                trust::take_given(&self.scope, known, given, self.trying(urge))?;
                (self.trust.endpoint, self.trust.identity) = (None, None);
                self.trust.head = Some(known.head.digest);
            }
            self.try_trust(known).await
        };
        let kept = kept.await;
        self.note_trust(kept);
    }

    fn trying(&self, urge: Option<Urge>) -> Trying {
        let policy = self.engine.current().map(|manifest| manifest.runs.apply).unwrap_or_default();
        let within = urge.and_then(|urge| urge.within).unwrap_or(policy.deadline);
        Trying { within, offline: policy.confirm == Confirm::Offline, urged: urge.is_some() }
    }

    fn note_trust(&mut self, kept: Result<(), AskError>) {
        self.trust.problem = kept.err().map(|why| describe(&why));
        if let Some(problem) = &self.trust.problem {
            tracing::error!(problem, "the roots could not be taken");
        }
    }

    async fn try_trust(&mut self, known: &Known) -> Result<(), AskError> {
        let (head, now) = (&known.head.head, known.now(clock::now()));
        let mut both = Both::open(&self.scope, known, now)?;
        self.trust.on_trial = both.is_on_trial();
        let svid = self.scope.seat(&self.node.principal()).svid()?;
        let Some(svid) = svid.filter(|_| both.is_on_trial()) else {
            return Ok(());
        };
        let gateways = self.gateways();
        let probe = RootProbe { scope: &self.scope, known, gateways: &gateways, own: &svid.own };
        if let Some(left) = left(both.endpoint.trial(), now) {
            let new: Vec<_> = both.endpoint.tried().into_iter().cloned().collect();
            let tried = tokio::time::timeout(left, probe.endpoint(&new)).await.unwrap_or(Err(AskError::OutOfTime));
            let tried = tried.map_err(|why| Unfit::Roots(describe(&why)));
            self.trust.endpoint = tried.as_ref().err().cloned();
            both.endpoint.found(tried, known.now(clock::now()))?;
            both.endpoint.settle(&self.scope, head)?;
        }
        if let Some(left) = left(both.identity.trial(), now) {
            let new: Vec<_> = both.identity.tried().into_iter().cloned().collect();
            let tried = tokio::time::timeout(left, probe.identity(&new)).await.unwrap_or(Err(AskError::OutOfTime));
            let tried = tried.map_err(|why| Unfit::Roots(describe(&why)));
            self.trust.identity = tried.as_ref().err().cloned();
            both.identity.found(tried, known.now(clock::now()))?;
            both.identity.settle(&self.scope, head)?;
        }
        self.trust.on_trial = both.is_on_trial();
        Ok(())
    }

    /// Other programs take the first issuer that fits: the one under the root in use comes first. None is left out, for
    /// whoever has not heard of the turn yet.
    fn order_svids(&self, known: &Known) -> Result<(), ScopeError> {
        let head = &known.head.head;
        let trusting = Trusting::<Identity>::open(&self.scope, known, known.now(clock::now()))?;
        let in_force = trusting.in_force(head);
        let active = identity::trust::active(&head.trust, Domain::Identity).map(|line| line.bundle);
        let rank = |issuer: &CertificateDer<'_>| {
            let leads = |bundle: &&&Bundle<Identity>| {
                bundle.roots().certificates().iter().any(|root| certificate::is_signed_by(issuer, root))
            };
            let to = |bundle: &&Bundle<Identity>| Some(bundle.digest()) != active;
            in_force.iter().filter(leads).map(to).min().map_or(2, u8::from)
        };
        for principal in self.scope.seated(&self.node) {
            let seat = self.scope.seat(&principal);
            // Whoever cannot be read keeps nobody else from anything.
            let Ok(Some(svid)) = seat.svid() else { continue };
            let mut chain = svid.own.chain.clone();
            if let Some(issuers) = chain.get_mut(1..) {
                issuers.sort_by_cached_key(rank);
            }
            if chain != svid.own.chain {
                seat.reorder(svid.counter, &certificate::to_pem(&chain))?;
            }
        }
        Ok(())
    }

    /// Does an SVID that is good otherwise lead to fewer roots than this gateway could make it lead to? Nodes do not all
    /// come at once, and nobody is asked twice for what it cannot do.
    pub(super) fn wants_more_roots(
        &mut self,
        principal: &Principal,
        svid: &Svid,
        line: &Line,
        seen: &Seen,
        now: Timestamp,
    ) -> bool {
        // A new SVID goes with a new connection, and what is on trial may go back: the line that holds is kept until then.
        if self.trust.on_trial {
            return false;
        }
        let leads = verifier::leads_to(&svid.own.chain, &seen.servable, now).len();
        let asked = (line.known.head.digest, line.gateway.mandate.gateway.clone());
        if leads >= seen.servable.certificates().len() {
            self.trust.best.remove(principal);
            return false;
        }
        if self.trust.best.get(principal) == Some(&asked) {
            return false;
        }
        let at = *self.trust.reissue_at.get_or_insert(self.schedule.reissue_at(now));
        if now >= at {
            self.trust.best.insert(principal.clone(), asked);
            return true;
        }
        false
    }

    /// All that wanted more roots has asked for them.
    pub(super) fn reissued(&mut self, now: Timestamp) {
        self.trust.reissue_at = self.trust.reissue_at.filter(|at| now < *at);
    }
}

/// Does the head still let this SVID be one, its time aside? Its root may be retired, or its issuer out of office.
pub(super) fn is_outdated(scope: &Scope, known: &Known, svid: &Svid, now: Timestamp) -> Result<bool, AskError> {
    Ok(makes_outdated(&judge(&keep::identity_roots(scope, known)?, known, svid, now)))
}

pub(super) fn makes_outdated(judged: &Result<(), Untrusted>) -> bool {
    let outdated = |why: &Untrusted| why.is_unknown_root() || matches!(why, Untrusted::UnmandatedIssuer(_));
    judged.as_ref().is_err_and(outdated)
}

fn judge(roots: &Roots<Identity>, known: &Known, svid: &Svid, now: Timestamp) -> Result<(), Untrusted> {
    let name = &known.founding.record.name;
    let standard = Standard { org: known.org(), name, roots, head: &known.head.head };
    verifier::check_svid(&svid.own.chain, Side::Client, standard, now).map(drop)
}

/// The roots of members as they are during one exchange: read once, for all who are at home here.
#[derive(Debug)]
pub(super) struct Seen {
    roots: Roots<Identity>,
    /// The trusted ones under which the gateway's issuing key has a certificate.
    servable: Roots<Identity>,
}

impl Seen {
    pub(super) fn by(scope: &Scope, line: &Line, now: Timestamp) -> Result<Self, ScopeError> {
        let (head, issuer) = (&line.known.head.head, line.gateway.mandate.identity_issuer);
        let trusting = Trusting::<Identity>::open(scope, &line.known, now)?;
        let mut found = Vec::new();
        for bundle in trusting.in_force(head) {
            for root in bundle.roots().certificates() {
                let certified = bundle.issuers_of(issuer).any(|issuer| certificate::is_signed_by(issuer, root));
                if certified && !found.contains(root) {
                    found.push(root.clone());
                }
            }
        }
        Ok(Self { roots: trusting.roots(head), servable: Roots::from_certificates(found) })
    }

    /// What others make of an SVID of this node.
    pub(super) fn judge(&self, known: &Known, svid: &Svid, now: Timestamp) -> Result<(), Untrusted> {
        judge(&self.roots, known, svid, now)
    }
}

fn left(trial: Option<&crate::apply::trial::Trial>, now: Timestamp) -> Option<Duration> {
    trial.map(|trial| Duration::from_secs(trial.deadline().since(now).0.max(1)))
}
