//! Gateways: added, moved to, renewed, removed. Their keys are made where they serve.

use std::collections::BTreeSet;

use ground::random;
use identity::authority::Authority;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::certificate::{RequestedKey, Validity};
use identity::envelope::Envelope;
use identity::glob::NameGlob;
use identity::head::{Cause, Head, Mandate, TrustLine};
use identity::key::PublicKey;
use identity::principal::{Address, Kind, NodeName, OrgName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::gateway::{CheckedRequest, GatewayGrant};
use org::report::Report;
use org::state::Standing;
use wire::control::{Answer, Call, PeerView};

use crate::desk::{Desk, DeskError};
use crate::handed::Handed;
use crate::head::MANDATE;
use crate::keys::SignerKeys;
use crate::mandate::{LASTS, SVID_TTL};
use crate::session::{Made, OperateError, Session};

/// How long a certificate of an issuing key is good; a new version of the roots brings a new one.
pub const ISSUER_LIFE: Seconds = Seconds::DAY.times(365 * 3);

/// The roots, open.
#[derive(Debug)]
pub struct OpenRoots {
    pub identity: DomainRoots<Identity>,
    pub endpoint: DomainRoots<Endpoint>,
}

/// The root in use, and those beside it whose keys are at hand.
#[derive(Debug)]
pub struct DomainRoots<T: InDomain> {
    pub active: Authority<T>,
    pub more: Vec<Authority<T>>,
    /// Trusted versions under whose root nothing can be certified here: its key is elsewhere.
    pub absent: Vec<TrustLine>,
}

impl<T: InDomain> DomainRoots<T> {
    /// A certificate of an issuing key under the root in use, and one under each of the others.
    fn certify(
        &self,
        who: (&OrgName, &NodeName),
        key: &RequestedKey,
        now: Timestamp,
    ) -> Result<(Bytes, Vec<Bytes>), OperateError> {
        let one = |root: &Authority<T>| -> Result<Bytes, OperateError> {
            let made = root.certify_request(who, key, random::serial()?, Validity::from_now(now, ISSUER_LIFE));
            Ok(Bytes(made.map_err(|why| OperateError::Unwise(why.to_string()))?.as_ref().to_vec()))
        };
        Ok((one(&self.active)?, self.more.iter().map(one).collect::<Result<_, _>>()?))
    }
}

/// What a new gateway may do.
#[derive(Debug, Clone)]
pub struct GatewayWish {
    pub names: Vec<NameGlob>,
    /// As the first gateway's, if nothing is said.
    pub svid_ttl: Option<Seconds>,
    pub lasts: Option<Seconds>,
}

impl<D: Desk> Session<D> {
    /// Whether the machine that asks is a member, and may be a gateway.
    pub async fn check_gateway_request(
        &mut self,
        envelope: &Envelope,
    ) -> Result<(CheckedRequest, NodeView), OperateError> {
        let unwise = |why: String| OperateError::Unwise(why);
        let checked = CheckedRequest::open(self.known.org(), envelope).map_err(|why| unwise(why.to_string()))?;
        let (name, key) = (checked.request.node.clone(), checked.request.node_key);
        let node = self.node(&name).await?;
        if node.node_key != key {
            return Err(unwise(format!(
                "`{name}` is another machine than the one that asks: its key is {}",
                node.node_key
            )));
        }
        if node.state != Standing::Member {
            return Err(unwise(format!("`{name}` is not a member, but {}", node.state.word())));
        }
        if node.low {
            return Err(unwise(format!(
                "`{name}` was let in by a pattern, which anybody can forge: such a machine never becomes a gateway"
            )));
        }
        self.check_free(&checked)?;
        Ok((checked, node))
    }

    fn check_free(&self, checked: &CheckedRequest) -> Result<(), OperateError> {
        let (name, head) = (&checked.request.node, &self.known.head.head);
        if head.revocations.voices.contains(&checked.request.voice) {
            return Err(OperateError::Unwise(format!(
                "the voice of `{name}` was closed, and never returns: remove `voice.key` from the gateway's folder there, \
                 and ask again"
            )));
        }
        if head.mandates.iter().any(|mandate| mandate.gateway == *name) {
            return Err(OperateError::Unwise(format!("`{name}` is a gateway already")));
        }
        let used = |mandate: &Mandate| {
            mandate.voice == checked.request.voice
                || mandate.identity_issuer == checked.identity.id
                || mandate.endpoint_issuer == checked.endpoint.id
        };
        if head.mandates.iter().any(used) {
            return Err(OperateError::Unwise("its keys are another gateway's".to_owned()));
        }
        Ok(())
    }

    /// The mandate that it would get.
    pub fn mandate_for(
        &self,
        checked: &CheckedRequest,
        wish: &GatewayWish,
        now: Timestamp,
    ) -> Result<Mandate, OperateError> {
        let request = &checked.request;
        let usual = self.mandates().first().map_or(Seconds::DAY, |mandate| mandate.svid_ttl);
        let (ttl, lasts) = (wish.svid_ttl.unwrap_or(usual), wish.lasts.unwrap_or(MANDATE));
        if !SVID_TTL.contains(&ttl) || !LASTS.contains(&lasts) {
            let why = "an SVID lives between 10s and 90d, a mandate between 1h and 3650d";
            return Err(OperateError::Unwise(why.to_owned()));
        }
        if !wish.names.iter().any(|glob| glob.matches(request.node.as_str())) {
            let why = format!("`{0}` could not renew its own certificate: allow the name `{0}`, too", request.node);
            return Err(OperateError::Unwise(why));
        }
        Ok(Mandate {
            gateway: request.node.clone(),
            voice: request.voice,
            identity_issuer: checked.identity.id,
            endpoint_issuer: checked.endpoint.id,
            hosts: request.hosts.clone(),
            kinds: BTreeSet::from([Kind::Node, Kind::User, Kind::Service]),
            names: wish.names.clone(),
            svid_ttl: ttl,
            not_before: now - Seconds::HOUR,
            not_after: now + lasts,
            addresses: request.addresses.clone(),
        })
    }

    /// Certifies both issuing keys, and gives the mandate. Worth nothing without the head.
    pub async fn add_gateway(
        &mut self,
        keys: &SignerKeys,
        (checked, wish): (&CheckedRequest, &GatewayWish),
        roots: &OpenRoots,
    ) -> Result<Made<(Mandate, GatewayGrant)>, OperateError> {
        let made = self
            .publish(keys, |session, now| {
                let (mandate, head) = session.draft_addition((checked, wish), now)?;
                Ok((Handed::of(session.seal(&head)?), mandate))
            })
            .await?;
        let grant = self.grant(checked, roots)?;
        Ok(Made { what: (made.what, grant), pending: made.pending, roll: made.roll })
    }

    /// The mandate, and the head that gives it.
    pub fn draft_addition(
        &self,
        (checked, wish): (&CheckedRequest, &GatewayWish),
        now: Timestamp,
    ) -> Result<(Mandate, Head), OperateError> {
        self.check_free(checked)?;
        let mandate = self.mandate_for(checked, wish, now)?;
        let head = self.next_head(now, Cause::GatewayAdd { gateway: mandate.gateway.clone() }, |head| {
            // Those that were there before addresses were in the head.
            for known in head.mandates.iter_mut().filter(|known| known.gateway == self.survey.gateway) {
                if known.addresses.is_empty() {
                    known.addresses.clone_from(&self.survey.addresses);
                }
            }
            head.mandates.push(mandate.clone());
        })?;
        Ok((mandate, head))
    }

    fn grant(&self, checked: &CheckedRequest, roots: &OpenRoots) -> Result<GatewayGrant, OperateError> {
        let request = &checked.request;
        let (who, now) = ((&self.known.founding.record.name, &request.node), ground::clock::now());
        let mut grant = self.bare_grant((&request.node, request.voice), request.addresses.clone());
        (grant.identity_issuer, grant.identity_more) = roots.identity.certify(who, &checked.identity, now)?;
        (grant.endpoint_issuer, grant.endpoint_more) = roots.endpoint.certify(who, &checked.endpoint, now)?;
        grant.endpoint_root = Bytes(roots.endpoint.active.certificate().as_ref().to_vec());
        Ok(grant)
    }

    /// What the org is, without any certificate yet.
    pub(crate) fn bare_grant(&self, (gateway, voice): (&NodeName, PublicKey), addresses: Vec<Address>) -> GatewayGrant {
        let others = self.known.head.head.mandates.iter().filter(|mandate| mandate.gateway != *gateway);
        let mut others: Vec<_> = others.flat_map(|mandate| mandate.addresses.clone()).collect();
        let own = |address: &&Address| others.contains(address) || addresses.contains(address);
        let asked: Vec<_> = self.survey.addresses.iter().filter(|address| !own(address)).cloned().collect();
        others.extend(asked);
        let empty = || Bytes(Vec::new());
        GatewayGrant {
            freehold_grant: GatewayGrant::SCHEMA,
            org: self.known.founding.record.name.clone(),
            org_id: self.known.org(),
            gateway: gateway.clone(),
            voice,
            identity_issuer: empty(),
            endpoint_issuer: empty(),
            endpoint_root: empty(),
            identity_more: Vec::new(),
            endpoint_more: Vec::new(),
            founding: self.known.founding.envelope.clone(),
            signers: self.known.chain.clone(),
            addresses,
            others,
        }
    }

    pub(crate) fn mandate_of(&self, gateway: &NodeName) -> Result<&Mandate, OperateError> {
        let no_such = || OperateError::NoSuch { what: "gateway", name: gateway.to_string() };
        self.mandates().iter().find(|mandate| mandate.gateway == *gateway).ok_or_else(no_such)
    }

    /// Has a gateway come before the others.
    pub async fn move_gateway(&mut self, keys: &SignerKeys, gateway: &NodeName) -> Result<Made<u64>, OperateError> {
        self.mandate_of(gateway)?;
        self.publish(keys, |session, now| {
            if !session.mandate_of(gateway)?.is_active(now) {
                return Err(OperateError::Unwise(format!("the mandate of `{gateway}` is over: renew it first")));
            }
            let cause = Cause::GatewayMove { gateway: gateway.clone() };
            let head = session.next_head(now, cause, |head| {
                head.mandates.sort_by_key(|mandate| mandate.gateway != *gateway);
                for known in head.mandates.iter_mut().filter(|known| known.gateway == session.survey.gateway) {
                    if known.addresses.is_empty() {
                        known.addresses.clone_from(&session.survey.addresses);
                    }
                }
            })?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }

    /// Takes the mandate away. What it wrote up to now stands; what it issued is worth nothing at once.
    pub async fn remove_gateway(&mut self, keys: &SignerKeys, gateway: &NodeName) -> Result<Made<u64>, OperateError> {
        self.mandate_of(gateway)?;
        self.publish(keys, |session, now| {
            let head = session.draft_removal(gateway, now)?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }

    /// The head that takes the mandate away.
    pub fn draft_removal(&self, gateway: &NodeName, now: Timestamp) -> Result<Head, OperateError> {
        self.mandate_of(gateway)?;
        let others = self.mandates().iter().filter(|mandate| mandate.gateway != *gateway);
        if others.filter(|mandate| mandate.is_active(now)).count() == 0 {
            let why = format!("`{gateway}` is the last gateway: without it nothing can join or renew");
            return Err(OperateError::Unwise(why));
        }
        self.next_head(now, Cause::GatewayRemove { gateway: gateway.clone() }, |head| {
            head.mandates.retain(|mandate| mandate.gateway != *gateway);
        })
    }

    /// How the gateway that is asked stands with the others.
    pub async fn peers(&mut self) -> Result<Vec<PeerView>, OperateError> {
        match self.ask(Call::Peers {}).await? {
            Answer::Peers { peers } => Ok(peers),
            _ => Err(DeskError::OtherAnswer.into()),
        }
    }

    /// Members whose own last word names an earlier head, or who never said anything.
    pub async fn not_yet_at(&mut self, version: u64) -> Result<Vec<NodeName>, OperateError> {
        let nodes = self.nodes().await?;
        let members = nodes.into_iter().filter(|node| node.state == Standing::Member);
        let mut waiting: Vec<(NodeName, PublicKey)> = members.map(|node| (node.name, node.node_key)).collect();
        let (mut after, org) = (0, Some(self.known.org()));
        loop {
            let Answer::Reports { reports, last, more } = self.ask(Call::Reports { after }).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            for view in reports {
                waiting.retain(|(_, key)| {
                    let said = view.report.open_signed_by::<Report>(org, &[*key]);
                    !said.is_ok_and(|report| report.head.version >= version)
                });
            }
            if !more || last <= after {
                return Ok(waiting.into_iter().map(|(name, _)| name).collect());
            }
            after = last;
        }
    }
}
