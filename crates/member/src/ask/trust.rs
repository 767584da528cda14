//! The roots: fetched from a gateway that is believed, or, when nothing here leads to one any more, from anybody, since
//! they are signed; and what is new is tried.

use ground::clock;
use identity::bundle::{Bundle, Endpoint, Identity, InDomain, Roots};
use identity::causes::describe;
use identity::envelope::Envelope;
use wire::connect::{Anchor, Believed, CallError, GatewayAddress};
use wire::known::Known;
use wire::tls::{Expect, OwnSvid};
use wire::trust::{self, Trust};

use crate::apply::trust::{Trusting, Trying};
use crate::ask::error::{AskError, BadAnswer};
use crate::ask::keep::{Both, keep_in_sight, save_authority};
use crate::ask::reach::believe_one_of;
use crate::store::scope::Scope;
use crate::store::scope::trust::TrustPaths;

/// A joiner takes what the head trusts: it has nothing else.
pub(crate) fn begin(scope: &Scope, known: &Known, trust: Trust, paths: TrustPaths) -> Result<(), AskError> {
    let (head, now) = (&known.head.head, known.now(clock::now()));
    let mut identity = Trusting::<Identity>::open_with(scope, known, paths.clone(), now)?;
    identity.take(scope, head, trust.identity, now)?;
    let mut endpoint = Trusting::<Endpoint>::open_with(scope, known, paths, now)?;
    Ok(endpoint.take(scope, head, trust.endpoint, now)?)
}

/// Fetches what the head trusts where nothing of it is here, or where it is not known which versions are. What goes wrong
/// is told, and is no reason not to speak with the gateway.
pub(crate) async fn fill(scope: &Scope, gateway: &mut Believed, known: &Known) {
    let filled = async {
        let Both { endpoint, identity } = Both::open(scope, known, known.now(clock::now()))?;
        fill_one(scope, &mut *gateway, known, endpoint).await?;
        fill_one(scope, gateway, known, identity).await
    };
    if let Err(why) = filled.await {
        tracing::error!(why = describe(&why), "the roots of now could not be taken");
    }
}

async fn fill_one<D: InDomain>(
    scope: &Scope,
    gateway: &mut Believed,
    known: &Known,
    trusting: Trusting<D>,
) -> Result<(), AskError> {
    if trusting.is_served(&known.head.head) {
        return Ok(());
    }
    take_one(scope, gateway, known, trusting, Trying::default()).await
}

/// Offers all that the head trusts, fetched if it is not here yet.
pub(crate) async fn take(scope: &Scope, gateway: &mut Believed, known: &Known, trying: Trying) -> Result<(), AskError> {
    let now = known.now(clock::now());
    let Both { endpoint, identity } = Both::open(scope, known, now)?;
    take_one(scope, gateway, known, endpoint, trying).await?;
    take_one(scope, gateway, known, identity, trying).await
}

async fn take_one<D: InDomain>(
    scope: &Scope,
    gateway: &mut Believed,
    known: &Known,
    mut trusting: Trusting<D>,
    trying: Trying,
) -> Result<(), AskError> {
    let bundles = match trusting.at_hand(&known.head.head) {
        Some(bundles) => bundles,
        None => wire::trust::bundles(gateway, known).await?,
    };
    let now = known.now(clock::now());
    trusting.offer(scope, &known.head.head, bundles, trying, now)?;
    Ok(())
}

/// The same with what a tree holds, checked as if a gateway had said it: both domains, or none.
pub(crate) fn take_given(scope: &Scope, known: &Known, given: &[Envelope], trying: Trying) -> Result<(), AskError> {
    let (head, now) = (&known.head.head, known.now(clock::now()));
    let endpoint = known.bundles_among::<Endpoint>(given).map_err(BadAnswer::TreeRoots)?;
    let identity = known.bundles_among::<Identity>(given).map_err(BadAnswer::TreeRoots)?;
    let mut both = Both::open(scope, known, now)?;
    both.endpoint.offer(scope, head, endpoint, trying, now)?;
    both.identity.offer(scope, head, identity, trying, now)?;
    Ok(())
}

/// By whom and with what something new is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootProbe<'a> {
    pub scope: &'a Scope,
    pub known: &'a Known,
    pub gateways: &'a [GatewayAddress],
    pub own: &'a OwnSvid,
}

impl RootProbe<'_> {
    /// A gateway must be reached anew under each new version alone.
    pub(crate) async fn endpoint(self, new: &[Bundle<Endpoint>]) -> Result<(), AskError> {
        for bundle in new {
            self.reach(self.gateways, bundle.roots()).await?;
        }
        Ok(())
    }

    /// A gateway must be reached anew whose issuing key each new version certifies.
    pub(crate) async fn identity(self, new: &[Bundle<Identity>]) -> Result<(), AskError> {
        let now = self.known.now(clock::now());
        let roots = Trusting::<Endpoint>::open(self.scope, self.known, now)?.roots(&self.known.head.head);
        let mut last = AskError::NoGateway;
        for gateway in self.gateways {
            let met = match self.reach(std::slice::from_ref(gateway), roots.clone()).await {
                Ok(met) => met,
                Err(why) => {
                    last = why;
                    continue;
                }
            };
            let key = met.mandate.identity_issuer;
            match new.iter().find(|bundle| bundle.issuers_of(key).next().is_none()) {
                None => return Ok(()),
                Some(lacking) => {
                    let (gateway, version) = (met.mandate.gateway, lacking.body().trust_bundle_version);
                    last = BadAnswer::Uncertified { version, gateway }.into();
                }
            }
        }
        Err(last)
    }

    async fn reach(self, gateways: &[GatewayAddress], roots: Roots<Endpoint>) -> Result<Believed, AskError> {
        let expect = Expect::RootsSince(roots, self.known.head.head.issued_at);
        let tip = self.scope.tip()?;
        let anchor = Anchor::Known(self.known, tip.as_ref());
        // What is learned by it is heard again on the line that stays.
        Ok(believe_one_of(gateways, &expect, Some(self.own), anchor).await?.0)
    }
}

/// Catches up with the org at whoever answers, and believes only what is signed. Nothing if that brings nothing new.
pub(crate) async fn come_home(
    scope: &Scope,
    gateways: &[GatewayAddress],
    known: &Known,
) -> Result<Option<Known>, AskError> {
    let before = Trusting::<Endpoint>::open(scope, known, known.now(clock::now()))?.roots(&known.head.head);
    let mut known = known.clone();
    for gateway in gateways {
        let (newer, Trust { endpoint, identity }) = match Box::pin(trust::refresh(gateway, &known)).await {
            Ok(refreshed) => refreshed,
            Err(why) => {
                tracing::debug!(gateway = %gateway.address, %why, "no roots from there");
                if let CallError::Knowledge { source, .. } = &why {
                    let seen = keep_in_sight(scope, known.heed(source, known.now(clock::now())))?;
                    known = seen.unwrap_or(known);
                }
                continue;
            }
        };
        let after = Roots::of_all(&endpoint);
        let is_new = |root| !before.certificates().contains(root);
        let moved = after.certificates().iter().any(is_new);
        if !moved && newer.head.digest == known.head.digest {
            continue;
        }
        let (head, now) = (&newer.head.head, newer.now(clock::now()));
        if newer.head.digest != known.head.digest || newer.signers.id != known.signers.id {
            save_authority(scope, &newer)?;
        }
        if !moved {
            // The roots are the same, and what was signed since may have put the time right.
            return Ok(Some(newer));
        }
        let mut both = Both::open(scope, &newer, now)?;
        // Whoever is in the middle can make this happen: what has another way back is tried, like anything new.
        if both.endpoint.is_served(head) {
            let trying = Trying { urged: true, ..Trying::default() };
            both.endpoint.offer(scope, head, endpoint, trying, now)?;
        } else {
            both.endpoint.take(scope, head, endpoint, now)?;
        }
        if !both.identity.is_served(head) {
            both.identity.take(scope, head, identity, now)?;
        }
        tracing::warn!(
            gateway = %gateway.address,
            head = head.version,
            "no gateway was known by its root any more; the roots of now were read there, and their signatures hold"
        );
        return Ok(Some(newer));
    }
    Ok(None)
}
