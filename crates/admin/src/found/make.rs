//! What founding makes: roots, signers, founding record, head, ledger, the first node and its mandate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gateway::answer::issue::{Applicant, make_svid};
use gateway::gateway::{Gateway, GatewayError};
use gateway::store::folder::{GatewayFile, GatewayFolder, GatewayKeys};
use ground::file::{self, FileAccess, FileError, Lock};
use ground::passphrase::Passphrase;
use ground::random::{self, NoRandomness};
use ground::{clock, sealed};
use identity::authority::Authority;
use identity::bundle::{Bundle, Domain, Endpoint, Identity, InDomain};
use identity::certificate::{self, BadCertificate, Validity};
use identity::envelope::{BadEnvelope, Envelope};
use identity::head::{Cause, Head, Mandate, Placement, Revocations, TrustLine, TrustState};
use identity::id::Digest;
use identity::key::{BadKey, EdKey, P256Key, Sign};
use identity::principal::{Address, Host, Name, NodeName, OrgName, Principal, PrincipalKind, SignerName};
use identity::signers::{BadQuorum, Quorum, Signer};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use ledger::error::LedgerError;
use ledger::store::Ledger;
use member::store::scope::{NodeFile, Scope, ScopeError};
use operate::folder::{FolderError, Memory, OperatorFolder};
use operate::key::{self, KeyError};
use operate::session::timely::{FRESH, MANDATE};
use operate::trust::lifetimes::{Certifier, Lifetimes};
use org::founding::{BadFounding, Founding, FoundingRecord};
use org::invite::admission::{Claim, ClaimAuthority};
use org::ledger::entry::{Action, NotWritten, SignedEntry, Stamp};
use org::refusal::Refusal;
use org::state::State;
use org::state::take::NotTaken;
use wire::enroll::SvidRequest;
use wire::known::{BadKnowledge, Known};

use crate::found::recovery::{self, Phrase, RecoveryError};

/// What the founder decided.
#[derive(Debug)]
pub struct FoundingPlan {
    pub org: OrgName,
    pub addresses: Vec<Address>,
    pub threshold: usize,
    pub signers: Vec<SignerName>,
    pub user: Name,
    pub node: NodeName,
    pub svid_ttl: Seconds,
    pub recovery_delay: Seconds,
    pub lives: Lifetimes,
    pub passphrase: Option<Passphrase>,
}

/// What was founded.
#[derive(Debug)]
pub struct Founded {
    pub known: Known,
    pub folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    #[error("there already is an org `{0}` here")]
    Exists(OrgName),
    #[error("another `freehold found` is running in this home")]
    Busy,
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    #[error(transparent)]
    Quorum(#[from] BadQuorum),
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    Founding(#[from] BadFounding),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Sign(#[from] BadKey),
    #[error(transparent)]
    Seal(#[from] sealed::SealError),
    #[error(transparent)]
    Bundle(#[from] identity::bundle::BadBundle),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Knowledge(#[from] BadKnowledge),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("what was made does not hold together: {0}")]
    Inconsistent(Flaw),
}

/// What was made and does not hold.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
}

/// The first gateway may issue for every name.
const ANY_NAME: &str = "*";
const RECOVERY_PHRASES: usize = 3;
const RECOVERY_THRESHOLD: usize = 2;

/// Founds. `show` is given the phrases before the org is put in its place: an org whose phrases nobody saw must not
/// exist, and phrases of an org that does not exist harm nobody.
pub async fn found(
    home: &Path,
    plan: &FoundingPlan,
    show: impl FnOnce(&[Phrase], &Known),
) -> Result<Founded, FoundError> {
    file::make_private_folder(home)?;
    let _lock = Lock::take(&home.join(".founding.lock"))?.ok_or(FoundError::Busy)?;
    let place = home.join(plan.org.as_str());
    if place.exists() {
        return Err(FoundError::Exists(plan.org.clone()));
    }
    let draft = home.join(format!(".founding-{}", plan.org));
    // Left over from a run that was interrupted; the lock says that nobody is at it.
    file::remove_folder(&draft)?;
    let made = make(&draft, plan).await;
    let (known, phrases) = made.inspect_err(|_| {
        let _ = file::remove_folder(&draft);
    })?;
    show(&phrases, &known);
    file::rename(&draft, &place)?;
    Ok(Founded { known, folder: place })
}

async fn make(draft: &Path, plan: &FoundingPlan) -> Result<(Known, Vec<Phrase>), FoundError> {
    let now = clock::now();
    let operator = OperatorFolder { folder: draft.join("operator") };
    let gateway = GatewayFolder { folder: draft.join("gateway") };
    file::make_private_folder(&operator.path("signers"))?;
    file::make_private_folder(&gateway.folder)?;

    let roots = Roots::draw(plan, now)?;
    let signers: Vec<EdKey> = plan.signers.iter().map(|_| random::ed25519()).collect::<Result<_, _>>()?;
    let (phrases, recovery) = recovery::draw(RECOVERY_PHRASES)?;
    let founding = record(plan, &roots, &signers, recovery, now)?;
    roots.save(&operator, plan.passphrase.as_ref())?;
    for (name, key) in plan.signers.iter().zip(&signers) {
        key::save(&operator, name, key, plan.passphrase.as_ref())?;
    }

    let founder = Founder { plan, founding: &founding, signers: &signers, now };
    let keys = founder.gateway_keys(&roots, &gateway)?;
    let known = founder.write_ledger(&roots, &keys, &gateway)?;
    gateway.save_about(&GatewayFile {
        schema: 1,
        org: plan.org.clone(),
        org_id: founding.id,
        node: plan.node.clone(),
        addresses: plan.addresses.clone(),
    })?;
    let opened = Gateway::open(&gateway)?;
    founder.issue_first(&opened, &gateway.scope(), &known).await?;
    let memory = Memory {
        schema: 1,
        signer: plan.signers.first().cloned(),
        tip: Some(opened.tip().await?),
        gateway: Some(plan.node.clone()),
        gateways: plan.addresses.clone(),
        ..Memory::default()
    };
    drop(opened);
    operator.save_known(&known)?;
    operator.save_memory(&memory)?;
    Ok((known, phrases))
}

/// The two roots, with their keys.
struct Roots {
    identity: (Authority<Identity>, P256Key),
    endpoint: (Authority<Endpoint>, P256Key),
}

impl Roots {
    fn draw(plan: &FoundingPlan, now: Timestamp) -> Result<Self, FoundError> {
        Ok(Self { identity: root(plan, now)?, endpoint: root(plan, now)? })
    }

    fn save(&self, operator: &OperatorFolder, passphrase: Option<&Passphrase>) -> Result<(), FoundError> {
        save_root(operator, &self.identity.0, &self.identity.1, passphrase)?;
        save_root(operator, &self.endpoint.0, &self.endpoint.1, passphrase)
    }
}

fn root<D: InDomain>(plan: &FoundingPlan, now: Timestamp) -> Result<(Authority<D>, P256Key), FoundError> {
    let key = random::p256()?;
    let authority = Authority::root(&plan.org, &key, random::serial()?, Validity::from_now(now, plan.lives.root))?;
    Ok((authority, key))
}

fn save_root<D: InDomain>(
    operator: &OperatorFolder,
    authority: &Authority<D>,
    key: &P256Key,
    passphrase: Option<&Passphrase>,
) -> Result<(), FoundError> {
    let name = format!("{}-root", D::DOMAIN.word());
    let sealed = sealed::seal(key.pkcs8(), &format!("freehold {name}"), passphrase)?;
    file::write(&operator.path(&format!("{name}.key")), &sealed, FileAccess::Private)?;
    Ok(file::write(&operator.path(&format!("{name}.pem")), authority.pem().as_bytes(), FileAccess::Readable)?)
}

fn record(
    plan: &FoundingPlan,
    roots: &Roots,
    signers: &[EdKey],
    recovery: Vec<Signer>,
    now: Timestamp,
) -> Result<Founding, FoundError> {
    let named = plan.signers.iter().zip(signers);
    let listed = named.map(|(name, key)| Signer { name: name.clone(), key: key.public() }).collect();
    let record = FoundingRecord {
        name: plan.org.clone(),
        founded_at: now,
        identity_root: Bytes(roots.identity.0.certificate().as_ref().to_vec()),
        endpoint_root: Bytes(roots.endpoint.0.certificate().as_ref().to_vec()),
        signers: Quorum::new(plan.threshold, listed)?,
        recovery: Quorum::new(RECOVERY_THRESHOLD, recovery)?,
        recovery_delay: plan.recovery_delay,
    };
    let mut envelope = Envelope::seal(None, &record)?;
    for key in signers {
        envelope.sign(key)?;
    }
    Ok(Founding::open(envelope)?)
}

/// The one moment in which operator and gateway are the same hand.
struct Founder<'a> {
    plan: &'a FoundingPlan,
    founding: &'a Founding,
    signers: &'a [EdKey],
    now: Timestamp,
}

impl Founder<'_> {
    fn gateway_keys(&self, roots: &Roots, folder: &GatewayFolder) -> Result<GatewayKeys, FoundError> {
        let (identity_key, endpoint_key) = (random::p256()?, random::p256()?);
        let (org, node) = (&self.plan.org, &self.plan.node);
        let life = self.plan.lives.issuer;
        let identity_life = Certifier { root: &roots.identity.0, life }.validity(self.now);
        let endpoint_life = Certifier { root: &roots.endpoint.0, life }.validity(self.now);
        let keys = GatewayKeys {
            voice: random::ed25519()?,
            identity: roots.identity.0.certify_issuer(org, node, &identity_key, random::serial()?, identity_life)?,
            endpoint: roots.endpoint.0.certify_issuer(org, node, &endpoint_key, random::serial()?, endpoint_life)?,
            endpoint_root: roots.endpoint.0.certificate().clone(),
        };
        folder.save_keys(&keys, &identity_key, &endpoint_key)?;
        Ok(keys)
    }

    fn mandate(&self, keys: &GatewayKeys) -> Mandate {
        let hosts: BTreeSet<Host> = self.plan.addresses.iter().map(|address| address.host.clone()).collect();
        Mandate {
            gateway: self.plan.node.clone(),
            voice: keys.voice.public(),
            identity_issuer: keys.identity.key_id(),
            endpoint_issuer: keys.endpoint.key_id(),
            hosts: hosts.into_iter().collect(),
            kinds: BTreeSet::from([PrincipalKind::Node, PrincipalKind::User, PrincipalKind::Service]),
            names: ANY_NAME.parse().into_iter().collect(),
            svid_ttl: self.plan.svid_ttl,
            not_before: self.now - Seconds::HOUR,
            not_after: self.now + MANDATE,
            addresses: self.plan.addresses.clone(),
        }
    }

    /// The first entries of the gateway's chain, each judged as everyone does.
    fn write_ledger(&self, roots: &Roots, keys: &GatewayKeys, folder: &GatewayFolder) -> Result<Known, FoundError> {
        let identity = self.bundle::<Identity>(&roots.identity.0.pem())?;
        let endpoint = self.bundle::<Endpoint>(&roots.endpoint.0.pem())?;
        let head = self.seal(&self.first_head(keys, &identity, &endpoint))?;
        let known = Known::new(self.founding.clone(), &[], &head)?;
        let scope = folder.scope();
        scope.make_keys()?;
        let claim = self.claim(&scope)?;

        let ledger = Ledger::create(&folder.path("ledger.db"), self.founding)?;
        let mut chain = Chain {
            state: State::of(self.founding),
            ledger,
            voice: &keys.voice,
            when: Stamp { at: self.now, correlation: random::correlation()? },
        };
        chain.ledger.begin()?;
        for envelope in [&self.founding.envelope, &identity, &endpoint, &head] {
            chain.add(Action::Take { envelope: envelope.clone() })?;
        }
        chain.state.conclude(self.now);
        let admission = chain.add(Action::NodeAdmit { claim, invite: None, approval: None })?;
        chain.ledger.commit()?;

        let set = self.founding.first_signers();
        scope.save_known(&known)?;
        scope.save_trust(&[Bundle::open(&set, &identity)?], &[Bundle::open(&set, &endpoint)?])?;
        scope.save_admission(&admission)?;
        Ok(known)
    }

    fn bundle<D: InDomain>(&self, pem: &str) -> Result<Envelope, FoundError> {
        let hosts = self.plan.addresses.iter().map(|address| address.host.clone()).collect();
        self.seal(&Bundle::<D>::draft(1, None, &self.plan.org, hosts, pem, self.now)?)
    }

    fn first_head(&self, keys: &GatewayKeys, identity: &Envelope, endpoint: &Envelope) -> Head {
        let line = |domain: Domain, bundle: Digest| TrustLine::new(domain, 1, bundle, TrustState::Active);
        Head {
            version: 1,
            reverts: None,
            cause: Cause::Founding,
            issued_at: self.now,
            fresh_until: self.now + FRESH,
            members: None,
            previous: Vec::new(),
            recent: Vec::new(),
            record: std::collections::BTreeMap::new(),
            mandates: vec![self.mandate(keys)],
            placements: vec![Placement {
                principal: Principal::user(&self.plan.org, &self.plan.user),
                node: self.plan.node.clone(),
            }],
            revocations: Revocations::default(),
            trust: vec![line(Domain::Identity, identity.digest()), line(Domain::Endpoint, endpoint.digest())],
            signers: self.founding.first_signers().as_ref(),
            release: None,
            fleet: None,
        }
    }

    /// The first node is admitted by the signers themselves.
    fn claim(&self, scope: &Scope) -> Result<Envelope, FoundError> {
        let node_key = scope.node_key()?;
        let claim = Claim {
            authority: ClaimAuthority::Signers,
            host: None,
            replaces: None,
            // The signers' word that lets it in is good until its mandate would have to be renewed.
            until: Some(self.now + MANDATE),
            node_key: node_key.public(),
            seal_key: scope.seal_key()?,
            name: self.plan.node.clone(),
            labels: BTreeSet::new(),
            roles: BTreeSet::new(),
        };
        let mut claim = self.seal(&claim)?;
        claim.sign(&node_key)?;
        Ok(claim)
    }

    /// SVIDs for the first node and for its user, by the path by which all SVIDs are made.
    async fn issue_first(&self, gateway: &Gateway, scope: &Scope, known: &Known) -> Result<(), FoundError> {
        let plan = self.plan;
        let node_key = scope.node_key()?;
        let principals = [Principal::node(&plan.org, &plan.node), Principal::user(&plan.org, &plan.user)];
        for principal in &principals {
            let seat = scope.seat(principal);
            let pending = seat.pending()?;
            let offered = self.now + plan.svid_ttl;
            let svid_key = certificate::key_id(pending.key.public())?;
            let terms = identity::certificate::binding::BindingTerms {
                org: self.founding.id,
                principal,
                node: &plan.node,
                svid_key,
                not_after: offered,
            };
            let request = Bytes(certificate::make_request(&pending.key)?);
            let asked = SvidRequest { request, binding: terms.sign(&node_key)?, counter: pending.counter };
            let applicant = Applicant { subject: principal.into(), node: &plan.node, node_key: node_key.public() };
            let made = make_svid(gateway, applicant, &asked, offered, self.now)?;
            let chain: Vec<_> = made.svid.iter().map(|der| pki_types::CertificateDer::from(der.0.clone())).collect();
            gateway.log_first(node_key.public(), principal, made.row).await?;
            seat.install(&pending, &certificate::to_pem(&chain))?;
        }
        scope.save_tip(&gateway.tip().await?, known)?;
        Ok(scope.save_node(&NodeFile {
            schema: 1,
            org: plan.org.clone(),
            org_id: self.founding.id,
            name: plan.node.clone(),
            invite: None,
            gateways: plan.addresses.clone(),
            joined: true,
            trust: None,
        })?)
    }

    fn seal<T: identity::envelope::Payload>(&self, body: &T) -> Result<Envelope, FoundError> {
        let mut envelope = Envelope::seal(Some(self.founding.id), body)?;
        for key in self.signers.iter().take(self.plan.threshold) {
            envelope.sign(key)?;
        }
        Ok(envelope)
    }
}

/// Writes the first entries of the gateway's chain.
struct Chain<'a> {
    state: State,
    ledger: Ledger,
    voice: &'a EdKey,
    when: Stamp,
}

impl Chain<'_> {
    /// The entry, as it is signed.
    fn add(&mut self, action: Action) -> Result<Envelope, FoundError> {
        let last = self.state.frontier.place_of(&self.voice.public());
        let signed = SignedEntry::write(self.state.org, last, self.voice, self.state.under(), self.when, action);
        let signed = signed.map_err(|why| FoundError::Inconsistent(why.into()))?;
        let taken = self.state.take_own(&signed, None, self.when.at);
        taken.map_err(|why| FoundError::Inconsistent(why.into()))?;
        self.ledger.add_entry(&signed)?;
        Ok(signed.envelope)
    }
}
