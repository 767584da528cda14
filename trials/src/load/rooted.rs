//! A simulated node that keeps its roots as an agent does: it takes what the head trusts, tries what is new on a
//! connection of its own, renews an SVID that leads to too few of them, comes home if it was away for too long, and tells.

use std::io::{Error, Result};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ground::clock;
use identity::bundle::{Bundle, Endpoint, Identity, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::Mandate;
use identity::id::{Digest, Fingerprint};
use identity::principal::Address;
use identity::time::{Seconds, Timestamp};
use identity::verifier::{self, Side, Standard, Untrusted};
use org::refusal::Refusal;
use org::report::{SvidTold, TrustTold};
use pki_types::CertificateDer;
use tokio::sync::mpsc::UnboundedSender;
use wire::connect::GatewayAddress;
use wire::enroll::{Challenge, Issued, RenewRequest};
use wire::known::Known;
use wire::permit::Ask;
use wire::tls::{self, Expect};
use wire::trust::{self, Trust};

use crate::client::joiner::Ground;
use crate::load::caller::Caller;
use crate::load::follower::{Event, Hearing};
use crate::load::machine::Machine;
use crate::load::taken::{Taken, documents, fetch};

/// An agent's: to reach a gateway, between two attempts of a trial, after a failure.
const DIAL_TIME: Duration = Duration::from_secs(10);
const TRIAL_WAIT: Seconds = Seconds(2);
const REST: Duration = Duration::from_secs(2);

/// Where it calls, from which address, and how it spreads what need not be done at once.
#[derive(Debug, Clone)]
pub struct Habits {
    pub node: usize,
    pub gateway: Address,
    pub source: Ipv4Addr,
    /// How long it lets the gateway wait for news.
    pub patience: Seconds,
    /// How long after it could have an SVID that leads to more roots it asks for it.
    pub reissue_after: Duration,
}

#[derive(Debug)]
pub struct Rooted {
    habits: Habits,
    hearing: Hearing,
    endpoint: Taken<Endpoint>,
    identity: Taken<Identity>,
    svid: Vec<CertificateDer<'static>>,
    /// The roots in force that the SVID leads to.
    leads: Vec<Fingerprint>,
    /// Counts its SVIDs.
    counter: u64,
    admission: Envelope,
    /// The head whose roots were offered, and the one for which an SVID was asked last.
    offered: Option<Digest>,
    asked: Option<Digest>,
    reissue_at: Option<Instant>,
    said: Option<(Digest, TrustTold)>,
}

/// A connection to a gateway that is believed.
struct Line {
    caller: Caller,
    mandate: Mandate,
    known: Known,
}

impl Rooted {
    /// A machine that joined just now, with what it took from the gateway then.
    pub fn new(machine: Machine, issued: Issued, (known, trust): (Known, Trust), habits: Habits) -> Self {
        let now = known.now(clock::now());
        let svid = chain_of(&issued);
        Self {
            habits,
            hearing: Hearing::new(machine, known, issued.tip),
            endpoint: Taken::new(trust.endpoint, now),
            identity: Taken::new(trust.identity, now),
            svid,
            leads: Vec::new(),
            counter: 1,
            admission: issued.admission,
            offered: None,
            asked: None,
            reissue_at: None,
            said: None,
        }
    }

    /// Comes once, says what it is, and goes off.
    pub async fn visit(mut self, tell: &UnboundedSender<Event>) -> Result<Self> {
        let mut line = self.enter(tell).await?;
        self.offer(&mut line).await?;
        self.exchange(&mut line, tell).await?;
        Ok(self)
    }

    /// For as long as it is let.
    pub async fn follow(mut self, tell: UnboundedSender<Event>) {
        loop {
            let stayed = match self.enter(&tell).await {
                Ok(line) => self.stay(line, &tell).await,
                Err(why) => Err(why),
            };
            if let Err(why) = stayed {
                self.stumble(&tell, &why);
                tokio::time::sleep(REST).await;
            }
        }
    }

    /// Until it has an SVID that goes with a new connection, or until the connection ends.
    async fn stay(&mut self, mut line: Line, tell: &UnboundedSender<Event>) -> Result<()> {
        self.hearing.listed = 0;
        loop {
            self.exchange(&mut line, tell).await?;
            self.offer(&mut line).await?;
            if let Err(why) = self.try_roots().await {
                self.stumble(tell, &why);
            }
            if self.wants_more_roots(&line) {
                self.renew(&mut line).await?;
                return Ok(());
            }
        }
    }

    /// Says what is new here, or waits for what is new there.
    async fn exchange(&mut self, line: &mut Line, tell: &UnboundedSender<Event>) -> Result<()> {
        let trust = self.told()?;
        let told = (self.hearing.known.head.digest, trust);
        let is_news = self.said.as_ref() != Some(&told);
        let wait = if is_news { Seconds(0) } else { self.patience() };
        let report = is_news.then(|| self.hearing.report(Some(told.1.clone())));
        match self.hearing.ask(&mut line.caller, wait, report).await? {
            Ok(answer) => {
                if is_news {
                    let trust = Box::new(told.1.clone());
                    let _ = tell.send(Event::Trusts { node: self.habits.node, trust, at: Instant::now() });
                    self.said = Some(told);
                }
                self.hearing.take(answer);
                Ok(())
            }
            Err(Refusal::Busy { .. }) => {
                let _ = tell.send(Event::Busy);
                tokio::time::sleep(REST).await;
                Ok(())
            }
            Err(refusal) => Err(Error::other(refusal)),
        }
    }

    fn patience(&self) -> Seconds {
        let on_trial = self.endpoint.is_on_trial() || self.identity.is_on_trial();
        let most = if on_trial { TRIAL_WAIT } else { self.habits.patience };
        let due = self.reissue_at.map(|at| at.saturating_duration_since(Instant::now()).as_secs() + 1);
        due.map_or(most, |due| most.min(Seconds(due)))
    }

    // ---- roots ----

    /// Fetches what the head trusts and is not here, and checks it.
    async fn offer(&mut self, line: &mut Line) -> Result<()> {
        let known = &self.hearing.known;
        if self.offered == Some(known.head.digest) {
            return Ok(());
        }
        let (head, now) = (&known.head.head, known.now(clock::now()));
        let endpoint = match self.endpoint.at_hand(head) {
            Some(bundles) => bundles,
            None => fetch(&mut line.caller, known).await?,
        };
        let identity = match self.identity.at_hand(head) {
            Some(bundles) => bundles,
            None => fetch(&mut line.caller, known).await?,
        };
        self.endpoint.offer(endpoint, now);
        self.identity.offer(identity, now);
        self.offered = Some(known.head.digest);
        self.look_where_svid_leads();
        Ok(())
    }

    /// What is new must work on a fresh connection: an endpoint version alone; under an identity version the gateway that
    /// was met must be able to issue.
    async fn try_roots(&mut self) -> Result<()> {
        for bundle in self.endpoint.tried() {
            self.meet(bundle.roots(), true).await?;
        }
        self.endpoint.confirm(self.now());
        let tried: Vec<Bundle<Identity>> = self.identity.tried();
        if !tried.is_empty() {
            let key = self.meet(self.endpoint_roots(), true).await?.mandate.identity_issuer;
            if tried.iter().any(|bundle| bundle.issuers_of(key).next().is_none()) {
                return Err(Error::other("a new version has no certificate for the gateway's issuing key"));
            }
            self.identity.confirm(self.now());
        }
        Ok(())
    }

    fn endpoint_roots(&self) -> Roots<Endpoint> {
        self.endpoint.roots(&self.hearing.known.head.head)
    }

    fn now(&self) -> Timestamp {
        self.hearing.known.now(clock::now())
    }

    fn look_where_svid_leads(&mut self) {
        let roots = self.identity.roots(&self.hearing.known.head.head);
        self.leads = verifier::leads_to(&self.svid, &roots, self.now());
    }

    fn told(&self) -> Result<TrustTold> {
        let head = &self.hearing.known.head.head;
        let (endpoint, identity) = (self.endpoint.told(head), self.identity.told(head));
        let (Some(endpoint), Some(identity)) = (endpoint, identity) else {
            return Err(Error::other("it goes by no root at all"));
        };
        let leaf = self.svid.first().and_then(|leaf| certificate::read(leaf).ok());
        let not_after = leaf.ok_or_else(|| Error::other("its SVID cannot be read"))?.validity.not_after;
        let svid = SvidTold { principal: self.hearing.machine.principal(), roots: self.leads.clone(), not_after };
        Ok(TrustTold { endpoint, identity, svids: vec![svid] })
    }

    // ---- calling ----

    /// A connection that is believed: by the roots that count here, or by those of now if they are all gone.
    async fn enter(&mut self, tell: &UnboundedSender<Event>) -> Result<Line> {
        let node = self.habits.node;
        let met = match self.meet(self.endpoint_roots(), true).await {
            Err(why) if is_lost(&why) => {
                self.come_home().await?;
                let _ = tell.send(Event::CameHome { node });
                if self.is_outdated() {
                    self.come_back().await?;
                    let _ = tell.send(Event::Returned { node });
                }
                self.meet(self.endpoint_roots(), true).await
            }
            met => met,
        };
        let line = met?;
        self.hearing.known = line.known.clone();
        Ok(line)
    }

    /// As `wire::connect` does it, but from an address of its own: TLS under these roots, the signer chain walked, the
    /// head verified, the mandate found in it.
    async fn meet(&self, roots: Roots<Endpoint>, with_svid: bool) -> Result<Line> {
        let known = &self.hearing.known;
        let Habits { gateway, source, .. } = &self.habits;
        let expect = Expect::RootsSince(roots, known.head.head.issued_at);
        let own = with_svid.then(|| self.hearing.machine.own(&self.svid));
        let config = tls::client(expect.clone(), gateway.host.clone(), own.as_ref()).map_err(Error::other)?;
        let dialled = tokio::time::timeout(DIAL_TIME, Caller::dial(gateway.port, *source, config)).await;
        let mut caller = dialled.map_err(|_| Error::other("the gateway did not answer in time"))??;
        let endpoint = expect.check(&caller.shown(), &gateway.host, clock::now()).map_err(Error::other)?;
        let chain = documents(&mut caller, Ask::Signers).await?.documents;
        let head = documents(&mut caller, Ask::Head).await?.documents;
        let known = known.advance(&chain, head.first(), known.now(clock::now())).map_err(Error::other)?;
        let mandate = endpoint.believe(&known.head.head, known.now(clock::now())).map_err(Error::other)?.clone();
        Ok(Line { caller, mandate, known })
    }

    /// Reads signer chain, head and roots from whoever answers, and believes only what is signed.
    async fn come_home(&mut self) -> Result<()> {
        let gateway = GatewayAddress::from(self.habits.gateway.clone());
        let refreshed = Box::pin(trust::refresh(&gateway, &self.hearing.known)).await;
        let (known, Trust { endpoint, identity }) = refreshed.map_err(Error::other)?;
        let now = known.now(clock::now());
        self.endpoint = Taken::new(endpoint, now);
        if self.identity.in_force(&known.head.head).is_empty() {
            self.identity = Taken::new(identity, now);
        }
        self.hearing.known = known;
        self.look_where_svid_leads();
        Ok(())
    }

    // ---- SVIDs ----

    /// Could this gateway make an SVID that leads to more of the roots in force? Each asks at a moment of its own.
    fn wants_more_roots(&mut self, line: &Line) -> bool {
        let digest = self.hearing.known.head.digest;
        let servable = self.identity.servable(&self.hearing.known.head.head, line.mandate.identity_issuer);
        let led = |root: &CertificateDer<'_>| self.leads.contains(&Fingerprint::of_certificate(root.as_ref()));
        if self.identity.is_on_trial() || self.asked == Some(digest) || servable.certificates().iter().all(led) {
            return false;
        }
        let at = *self.reissue_at.get_or_insert_with(|| Instant::now() + self.habits.reissue_after);
        Instant::now() >= at
    }

    async fn renew(&mut self, line: &mut Line) -> Result<()> {
        let ground = ground(&mut line.caller).await?;
        let machine = &self.hearing.machine;
        let svid = machine.svid(ground, self.counter + 1);
        let request = RenewRequest { principal: machine.principal(), svid };
        let issued: std::result::Result<Issued, Refusal> = line.caller.ask(Ask::Renew, &request).await?;
        self.install(issued.map_err(Error::other)?)?;
        self.asked = Some(self.hearing.known.head.digest);
        self.reissue_at = None;
        Ok(())
    }

    /// Its node key and its admission get it another.
    async fn come_back(&mut self) -> Result<()> {
        let mut line = self.meet(self.endpoint_roots(), false).await?;
        let ground = ground(&mut line.caller).await?;
        let request = self.hearing.machine.return_request(&self.admission, ground, self.counter + 1);
        let issued: std::result::Result<Issued, Refusal> = line.caller.ask(Ask::Return, &request).await?;
        self.install(issued.map_err(Error::other)?)
    }

    /// Checks what came back as if a stranger had sent it.
    fn install(&mut self, issued: Issued) -> Result<()> {
        let (chain, known, now) = (chain_of(&issued), &self.hearing.known, self.now());
        let roots = self.identity.roots(&known.head.head);
        let believed = check(&chain, known, &roots, now).map_err(Error::other)?;
        let leaf = chain.first().and_then(|leaf| certificate::read(leaf).ok()).map(|leaf| leaf.key);
        let machine = &self.hearing.machine;
        if believed.principal != machine.principal() || leaf != Some(machine.svid_key()) {
            return Err(Error::other("the certificate is for somebody else"));
        }
        self.svid = chain;
        self.counter += 1;
        self.hearing.tip = issued.tip;
        self.look_where_svid_leads();
        Ok(())
    }

    /// Does no trusted root stand behind its SVID any more?
    fn is_outdated(&self) -> bool {
        let known = &self.hearing.known;
        let roots = self.identity.roots(&known.head.head);
        check(&self.svid, known, &roots, self.now()).is_err_and(|why| why.is_unknown_root())
    }

    fn stumble(&self, tell: &UnboundedSender<Event>, why: &Error) {
        let _ = tell.send(Event::Stumbled { node: self.habits.node, why: why.to_string() });
    }
}

fn check(
    chain: &[CertificateDer<'_>],
    known: &Known,
    roots: &Roots<Identity>,
    now: Timestamp,
) -> std::result::Result<verifier::BelievedSvid, Untrusted> {
    let standard = Standard { org: known.org(), name: &known.founding.record.name, roots, head: &known.head.head };
    verifier::check_svid(chain, Side::Client, standard, now)
}

fn chain_of(issued: &Issued) -> Vec<CertificateDer<'static>> {
    issued.svid.iter().map(|der| CertificateDer::from(der.0.clone())).collect()
}

async fn ground(caller: &mut Caller) -> Result<Ground> {
    let told: std::result::Result<Challenge, Refusal> = caller.ask(Ask::Challenge, &()).await?;
    let told = told.map_err(Error::other)?;
    let challenge = told.challenge.0.try_into().map_err(|_| Error::other("the challenge is not 32 bytes"))?;
    Ok(Ground { challenge, exporter: caller.exporter, not_after: told.not_after })
}

/// Was the gateway refused only because its root is not known here?
fn is_lost(why: &Error) -> bool {
    let Some(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other))) =
        why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return false;
    };
    let untrusted = other.0.downcast_ref::<Untrusted>();
    untrusted.is_some_and(|why| why.is_unknown_root() || matches!(why, Untrusted::NotByAnIssuer))
}
