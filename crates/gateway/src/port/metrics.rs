//! The gateway's page of numbers.

use std::path::PathBuf;
use std::sync::Arc;

use ground::clock;
use ledger::store::Ledger;
use member::agent::metrics::{self as agent, show_build};
use org::refusal::Refusal;
use org::state::Standing;
use tokio::sync::Semaphore;
use wire::http::metrics::text::{MetricKind, Page};

use crate::gateway::Gateway;
use crate::port::endpoint::EndpointCertificate;

/// Everything that the gateway's page is made from.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub gateway: Arc<Gateway>,
    pub certificate: Arc<EndpointCertificate>,
    pub agent: Arc<agent::Tally>,
    pub ledger: PathBuf,
    pub places: usize,
    pub free: Arc<Semaphore>,
}

impl Watched {
    /// Made away from the threads that answer: it looks into the ledger's file.
    pub(crate) async fn page(self) -> String {
        let nodes = {
            let state = self.gateway.state().await;
            state.members.values().filter(|member| member.standing == Standing::Member).count()
        };
        tokio::task::spawn_blocking(move || self.page_now(nodes)).await.unwrap_or_default()
    }

    fn page_now(&self, nodes: usize) -> String {
        let mut page = Page::default();
        show_build(&mut page);
        self.gateway.callers.tally.show(&mut page);
        self.show_connections(&mut page);
        self.show_ledger(&mut page, nodes);
        self.show_standing(&mut page);
        self.agent.show(&mut page);
        page.into_text()
    }

    fn show_connections(&self, page: &mut Page) {
        let open = self.places.saturating_sub(self.free.available_permits());
        let members = self.gateway.callers.registry.count();
        let rows = [("member", members), ("stranger", open.saturating_sub(members))];
        let (help, rows) = ("Connections that are open now.", rows.map(|(who, count)| (who, count as u64)));
        page.labeled(MetricKind::Gauge, "freehold_gateway_connections", help, "caller", rows);
        let most = i64::try_from(self.places).unwrap_or(i64::MAX);
        page.gauge("freehold_gateway_connections_limit", "Connections that can be open at once.", most);
    }

    fn show_ledger(&self, page: &mut Page, nodes: usize) {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        page.gauge(
            "freehold_gateway_nodes",
            "Machines that are members; not those that were revoked, nor those that wait.",
            nodes,
        );
        let online = i64::try_from(self.gateway.callers.registry.online()).unwrap_or(i64::MAX);
        page.gauge("freehold_gateway_nodes_online", "Machines that are connected now.", online);
        let halt = self.gateway.check_halt();
        let help = "1 if the ledger is older than what it was shown: then nothing is issued.";
        let behind = matches!(halt, Err(Refusal::LedgerBehind));
        page.gauge("freehold_gateway_ledger_behind", help, i64::from(behind));
        let help = "1 if the ledger was restored and the gateway has begun no other chain: then nothing is issued.";
        page.gauge("freehold_gateway_ledger_restored", help, i64::from(matches!(halt, Err(Refusal::Restored))));
        if let Ok(counts) = Ledger::count(&self.ledger) {
            page.gauge("freehold_gateway_ledger_entries", "Entries in the ledger.", counts.entries);
            let help = "Machines that get no SVID because two use one key, or a disk was put back.";
            page.gauge("freehold_gateway_alarms", help, counts.alarms);
            page.gauge("freehold_gateway_waiting", "Machines that wait for an operator's yes.", counts.waiting);
        }
    }

    fn show_standing(&self, page: &mut Page) {
        let head = &self.gateway.judgment.load().head;
        let version = i64::try_from(head.version).unwrap_or(i64::MAX);
        page.gauge("freehold_gateway_head_version", "The version of the head in force.", version);
        page.moment(
            "freehold_gateway_head_fresh_until_timestamp_seconds",
            "Until when the head is fresh; later nobody new is let in.",
            Some(head.fresh_until),
        );
        let issuers = self.gateway.keys.issuers.load();
        let lacking = issuers.identity.ways.lacks.len() + issuers.endpoint.ways.lacks.len();
        let help = "Trusted roots under which this gateway's issuing keys have no certificate.";
        page.gauge("freehold_gateway_issuers_lacking", help, i64::try_from(lacking).unwrap_or(i64::MAX));
        let help = "1 if what this gateway issues or shows leads to a root in use, and a mandate names its keys.";
        page.gauge("freehold_gateway_issuers_in_order", help, i64::from(issuers.troubles(clock::now()).is_empty()));
        page.moment(
            "freehold_gateway_mandate_not_after_timestamp_seconds",
            "When this gateway's mandate ends; absent if none is in force.",
            self.gateway.mandate(clock::now()).ok().map(|mandate| mandate.not_after),
        );
        page.moment(
            "freehold_gateway_endpoint_certificate_not_after_timestamp_seconds",
            "When the HTTPS certificate in use ends.",
            Some(self.certificate.not_after()),
        );
    }
}
