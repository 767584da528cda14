//! What all listeners for programs share: for whom a program speaks, what names mean, and how many there may be.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use identity::principal::Principal;
use tokio::time::timeout;

use crate::dial::destination::Destination;
use crate::limit::programs::{PrincipalPermit, ProgramLimits};
use crate::local::auth::ProgramAuth;
use crate::local::names::addresses::LoopbackAddresses;
use crate::local::opens::{Opens, Unopened};
use crate::local::socks_words::SocksReply;
use crate::state::meter::Meter;

/// To say what is wanted, a program has so long.
pub(super) const WORDS: Duration = Duration::from_secs(10);
/// The dialer has bounds of its own; this is for all of its tries together.
const OPENING: Duration = Duration::from_secs(30);
/// When no connection can be taken in, for want of descriptors.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// What all listeners share.
pub(super) struct LocalState<O> {
    opens: O,
    /// Absent until something is listened at.
    pub auth: ArcSwapOption<ProgramAuth>,
    /// What names are answered with: addresses at which this process listens, and never another's.
    pub named: ArcSwap<LoopbackAddresses>,
    pub meter: Arc<Meter>,
    pub programs: ProgramLimits,
}

impl<O: Opens> LocalState<O> {
    /// For so many programs in all.
    pub(super) fn new(opens: O, meter: Arc<Meter>, most: usize) -> Self {
        let (auth, programs) = (ArcSwapOption::empty(), ProgramLimits::new(most));
        Self { opens, auth, named: ArcSwap::default(), meter, programs }
    }

    pub(super) async fn open(
        &self,
        who: &Principal,
        wanted: &Destination,
    ) -> Result<(O::Stream, PrincipalPermit), Unopened> {
        let crowded = || Unopened { reply: SocksReply::Failed, why: "it has as many open as one may have".to_owned() };
        let permit = self.programs.of(who).ok_or_else(crowded)?;
        // In a place of its own, which is given back before the stream begins: there may be thousands that are idle.
        let opening = Box::pin(self.opens.open(who, wanted));
        let late = || Unopened { reply: SocksReply::TimedOut, why: "it took too long".to_owned() };
        let stream = timeout(OPENING, opening).await.unwrap_or_else(|_| Err(late()))?;
        Ok((stream, permit))
    }
}
