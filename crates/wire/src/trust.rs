//! The trusted roots: read from a gateway that is believed, or from anybody, since they are signed.

use ground::clock;
use identity::bundle::{Bundle, Endpoint, Identity, InDomain, Roots};
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

/// The trusted bundles of one domain, of a gateway that is believed; each must be the one that the head names.
pub async fn bundles<D: InDomain>(gateway: &mut Believed, known: &Known) -> Result<Vec<Bundle<D>>, CallError> {
    bundles_of(&mut gateway.conversation, known).await
}

/// Those of both.
pub async fn trust(gateway: &mut Believed, known: &Known) -> Result<Trust, CallError> {
    trust_of(&mut gateway.conversation, known).await
}

/// Catches up with the org at whoever answers there, without believing them: only what is signed counts. This is how a
/// machine comes back whose endpoint roots are all gone. Nothing else can be asked on such a connection.
pub async fn refresh(gateway: &GatewayAddress, known: &Known) -> Result<(Known, Trust), CallError> {
    let mut conversation = Conversation::with_anybody(gateway).await?;
    let wrong = |why: BadKnowledge| CallError::Knowledge { address: Box::new(gateway.address.clone()), source: why };
    let chain = conversation.documents(Ask::Signers).await?;
    let head = conversation.document(Ask::Head).await?;
    let newer = known.advance(&chain, Some(&head), known.now(clock::now())).map_err(wrong)?;
    let trust = trust_of(&mut conversation, &newer).await?;
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

async fn trust_of(conversation: &mut Conversation, known: &Known) -> Result<Trust, CallError> {
    let endpoint = bundles_of(conversation, known).await?;
    Ok(Trust { endpoint, identity: bundles_of(conversation, known).await? })
}

async fn bundles_of<D: InDomain>(conversation: &mut Conversation, known: &Known) -> Result<Vec<Bundle<D>>, CallError> {
    let sent = conversation.documents(Ask::Trust(D::DOMAIN)).await?;
    let wrong = |why| CallError::Unreadable { address: conversation.address.clone(), why: BadReply::Bundles(why) };
    known.bundles_among(&sent).map_err(wrong)
}
