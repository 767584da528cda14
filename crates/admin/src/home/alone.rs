//! What a home does with its own copy of the ledger: it looks at it when no gateway answers.

use identity::principal::OrgName;
use operate::folder::OperatorFolder;
use operate::session::Session;
use operate::session::desk::home::HomeDesk;
use terminal::failure::Failure;

use super::{Common, During};
use crate::local::AnyDesk;

impl Common {
    /// A hint about a gateway names the one that was asked last.
    pub fn named(&self, failure: Failure) -> Failure {
        let asked = self.org("").ok().and_then(|org| OperatorFolder::at(&self.home(), &org).memory().ok()?.gateway);
        match asked {
            Some(gateway) => failure.at_gateway(gateway.as_str()),
            None => failure,
        }
    }

    /// What this home's own copy of the ledger says, if it has one.
    pub(super) async fn alone(&self, org: &OrgName, doing: &str) -> Option<Result<Session, Failure>> {
        let folder = OperatorFolder::at(&self.home(), org);
        let desk = HomeDesk::open(&folder)?;
        eprintln!(
            "no gateway answers: this is what this home knew at {}; what only a gateway knows (who was seen when, SVIDs, \
             machines that wait) is not told",
            desk.as_of()
        );
        let session = Session::begin(folder, AnyDesk::Home(Box::new(desk))).await;
        Some(session.during(doing))
    }
}
