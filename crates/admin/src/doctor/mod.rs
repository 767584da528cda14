//! What can be wrong with an org's folders and its gateway here. Looks only, changes nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use gateway::store::folder::{GatewayFile, GatewayFolder, ServingFile, loopback};
use gateway::write::issuers::Issuers;
use identity::bundle::{Endpoint, Identity, InDomain as _, Roots};
use identity::causes::describe;
use identity::head::Head;
use identity::key::Sign as _;
use identity::principal::{Address, OrgName};
use identity::time::Timestamp;
use ledger::error::{CURRENT, LedgerError};
use ledger::look::Counts;
use ledger::store::Ledger;
use member::store::scope::{ScopeError, Unsound};
use node::doctor::examination::Examination;
use node::doctor::reach;
use node::doctor::standing::{self, Viewer, Vouched};
use operate::folder::OperatorFolder;
use org::state::State;
use rustix::process::Pid;
use terminal::finding::{Finding, Patient};
use wire::connect::GatewayAddress;
use wire::known::Known;
use wire::trust;

use crate::config::{Flags, Settings};

const SERVE: &str = "freehold serve";
const NEWEST: &str = "put back the newest copy of the gateway's folder";

/// One org of a home, from its folders to its gateways.
pub(crate) async fn examine(home: &Path, org: &OrgName) -> Patient {
    Org::begin(home, org).examine().await
}

/// What was found so far.
struct Org {
    name: OrgName,
    operator: OperatorFolder,
    gateway: GatewayFolder,
    found: Examination,
}

impl Org {
    fn begin(home: &Path, org: &OrgName) -> Self {
        let (operator, gateway) = (OperatorFolder::at(home, org), GatewayFolder::at(home, org));
        let folder = operator.folder.parent().unwrap_or(&operator.folder);
        let version = format!("freehold {}, ledgers of version {}", env!("CARGO_PKG_VERSION"), CURRENT);
        let found = Examination::begin(Finding::ok("version", version), folder);
        Self { name: org.clone(), operator, gateway, found }
    }

    async fn examine(mut self) -> Patient {
        let known = self.known();
        let (mut head, mut addresses) = (known.as_ref().map(|known| known.head.head.clone()), Vec::new());
        if self.operator.folder.exists() {
            addresses = self.operators();
        }
        if self.gateway.folder.exists() {
            head = self.ledger().or(head);
            match self.gateway.about() {
                Err(why) => self.push(Finding::wrong("gateway", describe(&why), NEWEST)),
                Ok(about) => {
                    self.gateway_files(&about, head.as_ref());
                    self.port(&about, known.as_ref()).await;
                    addresses = about.addresses;
                }
            }
        }
        if let Some(head) = &head {
            self.push(standing::head(self.found.now, head, Viewer::Operator));
        }
        if let Some(known) = &known {
            self.gateways(addresses, known).await;
        }
        let newest = head.as_ref().map(|head| Vouched { what: format!("head {}", head.version), at: head.issued_at });
        self.found.end(self.name.to_string(), newest.as_ref())
    }

    fn push(&mut self, finding: Finding) {
        self.found.push(finding);
    }

    /// What is known of the org, from the operator's folder or from the gateway's own node.
    fn known(&mut self) -> Option<Known> {
        let operators = self.operator.folder.exists().then(|| self.operator.known());
        let scope = self.gateway.scope();
        match operators {
            Some(Ok(known)) => {
                let seen = format!(
                    "its folder knows signer set {} and head {}",
                    known.signers.version, known.head.head.version
                );
                self.push(Finding::ok("operator", seen));
                Some(known)
            }
            Some(Err(why)) => {
                self.push(Finding::wrong(
                    "operator",
                    describe(&why),
                    "put back a copy of the operator's folder, or take that of another operator's machine",
                ));
                scope.known().ok().flatten()
            }
            None => match scope.known() {
                Ok(known) => known,
                Err(why) => {
                    self.push(Finding::wrong("node", describe(&why), NEWEST));
                    None
                }
            },
        }
    }

    /// The operator's own memory: where gateways are.
    fn operators(&mut self) -> Vec<Address> {
        match self.operator.memory() {
            Err(why) => {
                self.push(Finding::wrong("operator", describe(&why), "put back a copy of the operator's folder"));
                Vec::new()
            }
            Ok(memory) => memory.gateways,
        }
    }

    /// The ledger's file, read whole; the head that it has.
    fn ledger(&mut self) -> Option<Head> {
        match Ledger::examine(&self.gateway.path("ledger.db")) {
            Err(why) => {
                let cure = match &why {
                    LedgerError::Newer { .. } => "install the newer freehold again",
                    LedgerError::Older { .. } => "found the org anew, and let the machines join it",
                    LedgerError::NotCopied { .. } | LedgerError::Sqlite(_) | LedgerError::Damaged(_) => NEWEST,
                };
                self.push(Finding::wrong("ledger", describe(&why), cure));
                None
            }
            Ok((state, counts)) => {
                self.push(ledger(&counts));
                if counts.waiting > 0 {
                    let found = format!("{} machines wait for an operator", counts.waiting);
                    self.push(Finding::soon(
                        "waiting",
                        found,
                        "look: freehold node waiting; say yes: freehold node approve",
                    ));
                }
                self.issuers(&state);
                if state.is_frozen() {
                    self.push(Finding::wrong(
                        "signers",
                        "two signer sets claim one place: nothing is issued",
                        "find out who signed the second: freehold audit; then whoever signs for each of them settles it: \
                         freehold signer settle; or two of the recovery phrases do: freehold recover --signer NAME",
                    ));
                }
                state.head().map(|record| record.head.clone())
            }
        }
    }

    /// Does what this gateway issues lead to the roots that are in use?
    fn issuers(&mut self, state: &State) {
        // A key that cannot be read is told of with the others.
        let Ok(issuers) = self.gateway.voice().and_then(|voice| Issuers::find(state, &self.gateway, voice.public()))
        else {
            return;
        };
        let cure = "an operator certifies this gateway's key under the root in use: freehold trust publish";
        let ways = [(Identity::DOMAIN, &issuers.identity.ways), (Endpoint::DOMAIN, &issuers.endpoint.ways)];
        for (domain, until) in ways.into_iter().filter_map(|(domain, ways)| Some((domain, ways.active_until()?))) {
            self.push(standing::issuer(self.found.now, domain, until));
        }
        for (domain, until) in ways.into_iter().filter_map(|(domain, ways)| Some((domain, ways.root_until()?))) {
            if let Some(ending) = standing::root(self.found.now, domain, until, Viewer::Operator) {
                self.push(ending);
            }
        }
        // What has ended is told by then, with its own cure.
        let troubles = issuers.troubles(Timestamp::from_unix(0));
        if troubles.is_empty() {
            self.push(Finding::ok("trust", "what this gateway issues leads to the roots in use"));
        }
        for why in troubles {
            self.push(Finding::wrong("trust", why, cure));
        }
    }

    /// Keys, certificates, mandate, and the gateway's own node.
    fn gateway_files(&mut self, about: &GatewayFile, head: Option<&Head>) {
        match self.gateway.keys() {
            Err(why) => self.push(Finding::wrong("keys", describe(&why), "chmod 600 a key that others can read; if one is damaged, put back the newest copy of the gateway's folder")),
            Ok(keys) => {
                self.push(Finding::ok("keys", "the gateway's voice and issuing keys are whole"));
                let voice = keys.voice.public();
                let own = head.into_iter().flat_map(|head| &head.mandates).filter(|mandate| mandate.voice == voice);
                let mandate = standing::mandate(self.found.now, own, Viewer::Operator);
                self.push(mandate);
            }
        }
        let scope = self.gateway.scope();
        let node = scope.node();
        let svid = node.and_then(|node| match node {
            Some(node) => scope.seat(&node.principal()).look(),
            None => {
                Err(ScopeError::Damaged { path: scope.path("node.json"), why: Unsound::NoScope(about.node.clone()) })
            }
        });
        self.push(standing::svid(self.found.now, svid.as_ref().map(Option::as_ref), SERVE));
    }

    /// Who listens where the gateway should.
    async fn port(&mut self, about: &GatewayFile, known: Option<&Known>) {
        let settings = Settings::of(&self.gateway, about, Flags::default());
        let wanted = match settings {
            Ok(settings) => settings.listen.value,
            Err(why) => {
                self.push(Finding::wrong(
                    "config",
                    describe(&why),
                    "mend it; freehold serve --help names every key as an option",
                ));
                return;
            }
        };
        let serving = match self.gateway.serving() {
            Ok(serving) => serving.filter(|serving| is_alive(serving.pid)),
            Err(why) => {
                self.push(Finding::soon("port", describe(&why), "remove that file, and start the gateway again"));
                None
            }
        };
        match serving {
            Some(serving) => self.own_port(about, known, &serving).await,
            None => self.push(foreign_port(wanted).await),
        }
    }

    async fn own_port(&mut self, about: &GatewayFile, known: Option<&Known>, serving: &ServingFile) {
        let ServingFile { listen, pid, .. } = serving;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if program.to_string_lossy().ends_with(" (deleted)") {
            self.push(Finding::soon(
                "version",
                format!("process {pid} still serves with a program that was replaced"),
                "restart the gateway",
            ));
        }
        let (Some(address), Some(known)) = (about.addresses.first().cloned(), known) else {
            return;
        };
        let door = GatewayAddress { address, dial: Some(serving.dial()) };
        let finding = match reach::reach(&door, &roots(&door, known).await, known, None).await {
            Ok(_) => Finding::ok("port", format!("{listen} is held by this gateway, process {pid}")),
            Err(why) => {
                let found = format!("process {pid} should serve on {listen}, but: {}", describe(&why));
                Finding::wrong("port", found, format!("stop it, see its log, start it again: {SERVE}"))
            }
        };
        self.push(finding);
    }

    /// Each place where machines look for the gateway.
    async fn gateways(&mut self, addresses: Vec<Address>, known: &Known) {
        for address in addresses {
            let gateway = GatewayAddress::from(address);
            let outcome = reach::reach(&gateway, &roots(&gateway, known).await, known, None).await;
            self.found.called(&gateway, &outcome);
        }
    }
}

fn ledger(counts: &Counts) -> Finding {
    let entries = counts.entries;
    if counts.restored {
        let found = format!(
            "its {entries} entries were restored from a backup, and nothing is issued until its gateway begins another chain"
        );
        return Finding::wrong("ledger", found, "freehold gateway reopen NAME says what is given up, and asks");
    }
    if counts.behind {
        let found = format!(
            "its {entries} entries are fewer than it told others of: it was restored from an old copy, and nothing is issued"
        );
        return Finding::wrong("ledger", found, format!("{NEWEST}; if there is none: freehold gateway reopen NAME"));
    }
    match counts.alarms {
        0 if counts.version < CURRENT => {
            let found = format!("sound, {entries} entries, of version {}", counts.version);
            Finding::ok("ledger", format!("{found}: brought up to date when the gateway starts"))
        }
        0 => Finding::ok("ledger", format!("sound, {entries} entries")),
        alarms => Finding::wrong(
            "ledger",
            format!("sound, {entries} entries, {alarms} alarms: two machines use one key, or a disk was put back"),
            "freehold node list shows ALARM; freehold node show NAME says more, freehold node revoke NAME ends it",
        ),
    }
}

/// Nobody serves: is the port free at least?
async fn foreign_port(wanted: SocketAddr) -> Finding {
    // Whoever listens on all addresses may do so in one family only.
    let both = wanted.ip().is_unspecified().then(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), wanted.port()));
    for door in [Some(loopback(wanted)), both].into_iter().flatten() {
        let dial = tokio::net::TcpStream::connect(door);
        if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_secs(3), dial).await {
            let found = format!("no gateway serves, and something else holds {door}");
            let look = format!("see which: ss -ltnp 'sport = :{}'", wanted.port());
            let cure = format!("{look}; stop it, or listen elsewhere: {SERVE} --listen ADDR:PORT");
            return Finding::wrong("port", found, cure);
        }
    }
    let cure = format!("start it, and let your service manager keep it running: {SERVE}");
    Finding::wrong("port", format!("no gateway serves; {wanted} is free"), cure)
}

/// Those that are trusted now: signed, whoever hands them over. Else where everybody begins.
async fn roots(gateway: &GatewayAddress, known: &Known) -> Roots<Endpoint> {
    let refreshed = Box::pin(trust::refresh(gateway, known)).await;
    refreshed.map_or_else(|_| known.first_endpoint_roots(), |(_, trusted)| Roots::of_all(&trusted.endpoint))
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
}
