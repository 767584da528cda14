//! The trusted roots: read from a gateway that is believed, or from anybody, since they are signed.

use ground::clock;
use identity::bundle::{Bundle, Endpoint, Identity, InDomain, Roots};
use identity::envelope::Envelope;
use pki_types::CertificateDer;

use crate::connect::reply::BadReply;
use crate::connect::standing::{Signed, Standing};
use crate::connect::{AlertKind, Believed, CallError, Conversation, GatewayAddress};
use crate::known::{BadKnowledge, Known};
use crate::permit::Ask;

/// Every bundle that a head trusts.
#[derive(Debug, Clone)]
pub struct Trust {
    pub endpoint: Vec<Bundle<Endpoint>>,
    pub identity: Vec<Bundle<Identity>>,
}

impl Believed {
    /// The trusted bundles of one domain; each must be the one that the head names.
    pub async fn bundles<D: InDomain>(&mut self, known: &Known) -> Result<Vec<Bundle<D>>, CallError> {
        self.conversation.bundles(known).await
    }

    pub async fn trust(&mut self, known: &Known) -> Result<Trust, CallError> {
        self.conversation.trust(known).await
    }
}

/// Catches up with the org at whoever answers there, without believing them: only what is signed counts. This is how a
/// machine comes back whose endpoint roots are all gone. Nothing else can be asked on such a connection.
pub async fn refresh(gateway: &GatewayAddress, known: &Known) -> Result<(Known, Trust), CallError> {
    let mut conversation = Conversation::with_anybody(gateway).await?;
    let wrong = |why: BadKnowledge| CallError::Knowledge { address: Box::new(gateway.address.clone()), source: why };
    let chain = conversation.documents(Ask::Signers).await?;
    let head = conversation.document(Ask::Head).await?;
    let newer = known.advance(&chain, Some(&head), known.now(clock::now())).map_err(wrong)?;
    let trust = conversation.trust(&newer).await?;
    Ok((newer, trust))
}

/// A gateway did not take the caller's certificate, and said so by an alert: adds what is known on this side, and what is
/// signed, which any stranger may read.
pub async fn explain(
    mut refused: CallError,
    gateway: &GatewayAddress,
    known: &Known,
    chain: &[CertificateDer<'_>],
    roots: &Roots<Identity>,
) -> CallError {
    let CallError::NotAccepted { alert, standing, .. } = &mut refused else {
        return refused;
    };
    let Some(mut own) = Standing::of(chain, clock::now()) else {
        return refused;
    };
    own.look_among(chain, roots);
    // Time and revocation are told by the alert itself.
    if *alert == AlertKind::Other
        && let Ok((newer, trust)) = Box::pin(refresh(gateway, known)).await
    {
        let trusted = Roots::of_all(&trust.identity);
        own.look_among(chain, &trusted);
        own.signed = Some(Signed::new(&newer.head.head, &trusted, own.issuer));
    }
    *standing = Some(Box::new(own));
    refused
}

impl Conversation {
    async fn trust(&mut self, known: &Known) -> Result<Trust, CallError> {
        Ok(Trust { endpoint: self.bundles(known).await?, identity: self.bundles(known).await? })
    }

    async fn bundles<D: InDomain>(&mut self, known: &Known) -> Result<Vec<Bundle<D>>, CallError> {
        let sent = self.documents(Ask::Trust(D::DOMAIN)).await?;
        let wrong = |why| CallError::Unreadable { address: self.address.clone(), why: BadReply::Bundles(why) };
        known.bundles_among(&sent).map_err(wrong)
    }
}

impl Known {
    /// The trusted bundles of one domain among what somebody gave; each must be the one that the head names, and hold.
    pub fn bundles_among<D: InDomain>(&self, given: &[Envelope]) -> Result<Vec<Bundle<D>>, &'static str> {
        let mut bundles = Vec::new();
        for line in self.head.head.trusted_bundles(D::DOMAIN) {
            let envelope = given.iter().find(|envelope| envelope.digest() == line.bundle);
            let envelope = envelope.ok_or("a trust bundle that the head names is missing")?;
            let bundle: Bundle<D> = self.open_bundle(envelope).ok_or("a trust bundle does not hold")?;
            if !line.fits(bundle.body(), &self.founding.record.name) {
                return Err("a trust bundle is not the version, or not of the org, that the head says");
            }
            bundles.push(bundle);
        }
        if bundles.is_empty() { Err("the head names no trust bundle") } else { Ok(bundles) }
    }

    /// A bundle may have been signed by an earlier set than the one in force.
    pub fn open_bundle<D: InDomain>(&self, envelope: &Envelope) -> Option<Bundle<D>> {
        self.signer_sets().iter().find_map(|set| Bundle::open(set, envelope).ok())
    }
}
