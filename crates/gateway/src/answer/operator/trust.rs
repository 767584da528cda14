//! What operators ask a gateway in order to turn trust: which keys it issues with, and which it would use next.

use std::sync::PoisonError;

use ground::clock;
use identity::bundle::Domain;
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::{Head, Mandate};
use identity::id::OrgId;
use identity::key::Sign as _;
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::gateway::IssuersNotice;
use org::refusal::{Fault, Refusal};
use wire::control::ControlAnswer;

use crate::fault::{OrFault as _, failed};
use crate::gateway::Gateway;
use crate::write::transaction::Transaction;

pub(crate) async fn issuers(gateway: &Gateway) -> Result<ControlAnswer, Refusal> {
    Ok(ControlAnswer::Issuers { issuers: known(gateway).await? })
}

/// Every gateway's, this one's first: the others' as they were last heard, also of those that are asleep.
pub(crate) async fn known(gateway: &Gateway) -> Result<Vec<Envelope>, Refusal> {
    let kept = gateway.writer.run(|tx| tx.keep(|tx| tx.ledger.issuers())).await?;
    let (judgment, now) = (gateway.judgment.load(), clock::now());
    // A voice may have lost its mandate since.
    let counts = |envelope: &Envelope| open(gateway.about.org_id, &judgment.head, envelope, now).is_some();
    Ok(std::iter::once(own(gateway)?).chain(kept.into_iter().filter(counts)).collect())
}

/// What a gateway with a mandate says of its keys, in its own voice.
fn open(org: OrgId, head: &Head, envelope: &Envelope, now: Timestamp) -> Option<IssuersNotice> {
    let named: IssuersNotice = envelope.peek(Some(org)).ok()?;
    let mandate = head.active_mandate(&named.gateway, now)?;
    envelope.open_signed_by(Some(org), &[mandate.voice]).ok()
}

#[derive(Debug, thiserror::Error)]
#[error("the mandate names the spare key, which is not in use yet")]
struct SpareIsNamed;

/// A spare key that nobody can have copied before now. Once for each head: what waits for more signatures follows this
/// one, and names the key.
pub(crate) async fn draw(gateway: &Gateway, domain: Domain) -> Result<ControlAnswer, Refusal> {
    // One that is behind may have this very key in its mandate by now.
    gateway.check_halt()?;
    let head = {
        let state = gateway.state().await;
        gateway.update_issuers(&state);
        state.head().map(|record| record.envelope.digest())
    };
    let head = head.ok_or_else(|| Refusal::NotFound { what: "head".to_owned() })?;
    let drawn_at = {
        let _drawing = gateway.keys.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        gateway.keys.issuers.load_full().settle(&gateway.folder).or_fault(Fault::Disk)?;
        let lies = gateway.folder.spare(domain).or_fault(Fault::Keys)?;
        let lies = certificate::key_id(lies.public()).or_fault(Fault::Keys)?;
        let named = |mandate: &Mandate| mandate.identity_issuer == lies || mandate.endpoint_issuer == lies;
        if gateway.judgment.load().head.mandates.iter().any(named) {
            return Err(failed(Fault::Keys, &SpareIsNamed));
        }
        gateway.folder.draw_spare(domain, head, clock::now()).or_fault(Fault::Disk)?
    };
    Ok(ControlAnswer::Spare { issuers: own(gateway)?, drawn_at })
}

/// Longer than any certificate or request of ours.
const LONGEST: usize = 8 << 10;

/// Takes what another gateway knows of issuing keys. The newest word of each counts, and of itself its last.
pub(crate) fn merge_issuers(
    tx: &mut Transaction<'_>,
    peer: &NodeName,
    told: &[Envelope],
    now: Timestamp,
) -> Result<(), Refusal> {
    let Some(head) = tx.state.head().map(|record| record.head.clone()) else { return Ok(()) };
    let org = tx.state.org;
    let kept = tx.keep(|tx| tx.ledger.issuers())?;
    let kept: Vec<IssuersNotice> = kept.iter().filter_map(|envelope| envelope.peek(Some(org)).ok()).collect();
    for envelope in told.iter().take(head.mandates.len()) {
        let Some(said) = open(org, &head, envelope, now) else { continue };
        let parts = [&said.identity, &said.endpoint, &said.spare_identity, &said.spare_endpoint];
        let is_own = tx.voice.gateway == said.gateway;
        let fits = !is_own && said.at <= now + Seconds::HOUR && parts.iter().all(|part| part.0.len() <= LONGEST);
        let before = kept.iter().find(|known| known.gateway == said.gateway);
        // A clock that was put back must not hold up a gateway's own word.
        let newer = before.is_none_or(|before| before.at < said.at || (said.gateway == *peer && before.at != said.at));
        if fits && newer {
            let envelope = envelope.clone();
            tx.keep(|tx| tx.ledger.keep_issuers(&said.gateway, said.at, &envelope))?;
        }
    }
    Ok(())
}

/// This gateway's own, in its own voice.
fn own(gateway: &Gateway) -> Result<Envelope, Refusal> {
    // One at a time: what is told of must be what lies there, and never the key in use.
    let _drawing = gateway.keys.drawing.lock().unwrap_or_else(PoisonError::into_inner);
    let issuers = gateway.keys.issuers.load_full();
    issuers.settle(&gateway.folder).or_fault(Fault::Disk)?;
    let spare = |domain: Domain| {
        let key = gateway.folder.spare(domain).or_fault(Fault::Keys)?;
        certificate::make_request(&key).map(Bytes).or_fault(Fault::Keys)
    };
    let (spare_voice, voice) = gateway.spare_voice().or_fault(Fault::Keys)?;
    let body = IssuersNotice {
        gateway: gateway.about.node.clone(),
        identity: Bytes(issuers.identity.told().as_ref().to_vec()),
        endpoint: Bytes(issuers.endpoint.told().as_ref().to_vec()),
        spare_identity: spare(Domain::Identity)?,
        spare_endpoint: spare(Domain::Endpoint)?,
        spare_voice,
        at: clock::now(),
    };
    let sealed = Envelope::seal(Some(gateway.about.org_id), &body).or_fault(Fault::Keys)?;
    sealed.signed(&voice.key).or_fault(Fault::Keys)
}

#[cfg(test)]
mod tests {
    use identity::key::EdKey;
    use trials::scene::{self, NOW, mandate};

    use super::*;

    #[test]
    fn a_gateway_speaks_of_its_keys_in_its_own_voice_and_while_it_has_a_mandate() {
        let founding = scene::founding();
        let head = Head { mandates: vec![mandate("one"), mandate("two")], ..scene::head(&founding) };
        let said = |gateway: &str, by: &str| {
            let (empty, at) = (|| Bytes(Vec::new()), NOW);
            let body = IssuersNotice {
                gateway: gateway.parse().unwrap(),
                identity: empty(),
                endpoint: empty(),
                spare_identity: empty(),
                spare_endpoint: empty(),
                spare_voice: EdKey::from_seed(&[9; 32]).public(),
                at,
            };
            scene::sealed(&founding, &body, by)
        };
        let counts = |envelope: &Envelope, now| open(founding.id, &head, envelope, now).is_some();
        assert!(counts(&said("one", "one"), NOW));
        assert!(counts(&said("two", "two"), NOW));
        assert!(!counts(&said("one", "two"), NOW), "one of them passes its key off as the other's");
        assert!(!counts(&said("three", "one"), NOW), "it has no mandate");
        assert!(!counts(&said("one", "one"), NOW + Seconds::DAY), "its mandate is over");
    }
}
