//! What gateways said of their ledgers, kept to be held against them; and where gateways are.

use identity::envelope::Envelope;
use identity::head::Head;
use identity::principal::{Address, NodeName};
use identity::time::Timestamp;
use org::ledger::frontier::Tip;
use serde::{Deserialize, Serialize};
use wire::known::Known;

use super::{NodeFile, Scope, ScopeError};

/// The gateway that was last spoken to, and the one that came first by the head of then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastGood {
    pub schema: u32,
    pub address: Address,
    pub first: Option<NodeName>,
}

impl Scope {
    /// The last word that was given, whoever gave it.
    pub fn tip(&self) -> Result<Option<Envelope>, ScopeError> {
        self.read_or_forget("tip.json")
    }

    /// The highest word of one gateway.
    pub fn tip_of(&self, gateway: &NodeName) -> Result<Option<Envelope>, ScopeError> {
        match self.read_or_forget(&format!("tips/{gateway}.json"))? {
            Some(tip) => Ok(Some(tip)),
            // Written before each gateway had its own.
            None => self.tip(),
        }
    }

    /// Keeps the highest word that each gateway gave about its ledger. A lower or unsigned one does not replace it: it
    /// is the evidence that confronts a gateway with its own future.
    pub fn save_tip(&self, tip: &Envelope, known: &Known) -> Result<(), ScopeError> {
        // A gateway speaks of its own chain: under another name its word would take the place of the evidence.
        let read = |tip: &Envelope| {
            known.head.head.mandates.iter().find_map(|mandate| {
                let told: Tip = tip.open_signed_by(Some(known.org()), &[mandate.voice]).ok()?;
                (told.voice == mandate.voice).then_some((mandate.gateway.clone(), told))
            })
        };
        let Some((gateway, new)) = read(tip) else {
            tracing::warn!("a gateway's word about its ledger is not signed by a mandated gateway; it is not kept");
            return Ok(());
        };
        // A voice that the operators closed confronts nobody any more.
        let old = self.tip_of(&gateway)?.as_ref().and_then(read).map(|(_, old)| old);
        match old.filter(|old| old.voice == new.voice) {
            Some(old)
                if old.place.seq > new.place.seq
                    || (old.place.seq == new.place.seq && old.place.digest != new.place.digest) =>
            {
                tracing::error!(
                    told_before = old.place.seq,
                    told_now = new.place.seq,
                    "the gateway's ledger is not what it was: it was restored from an old copy, or it lies"
                );
                Ok(())
            }
            _ => {
                // With one gateway there is nothing to keep apart.
                if known.head.head.mandates.len() > 1 || self.path("tips").exists() {
                    ground::file::make_private_folder(&self.path("tips"))?;
                    self.write_json(&format!("tips/{gateway}.json"), tip)?;
                }
                self.write_json("tip.json", tip)
            }
        }
    }

    pub fn last_good(&self) -> Result<Option<LastGood>, ScopeError> {
        self.read_or_forget("last-good.json")
    }

    pub fn save_last_good(&self, good: &LastGood) -> Result<(), ScopeError> {
        self.write_json("last-good.json", good)
    }

    /// Everywhere that a gateway may be: the last good one, those of the head, those from when the node joined; those that
    /// can issue nothing last. What is wrong among them costs a moment, and nothing is dropped for it.
    pub fn addresses(&self, node: &NodeFile, now: Timestamp) -> Result<Vec<Address>, ScopeError> {
        let known = self.known()?;
        let head = known.as_ref().map(|known| &known.head.head);
        let first = head.and_then(|head| head.first_gateway()).cloned();
        let good = self.last_good()?.filter(|good| good.first == first).map(|good| good.address);
        let listed = head.map(|head| head.gateway_addresses(now)).unwrap_or_default();
        let mute = head.map(Head::mute_addresses).unwrap_or_default();
        let mut all = in_turn(good.into_iter().chain(listed).chain(node.gateways.iter().cloned()));
        all.sort_by_key(|address| mute.contains(address));
        Ok(all)
    }
}

/// Each once, in the order of its first place.
pub(crate) fn in_turn(addresses: impl Iterator<Item = Address>) -> Vec<Address> {
    let mut all = Vec::new();
    for address in addresses {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use identity::head::Mandate;
    use identity::id::KeyId;

    use super::*;
    use crate::scene::{self, NOW};

    #[test]
    fn gateways_that_can_issue_nothing_are_asked_last() {
        let root = tempfile::tempdir().unwrap();
        let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
        scope.make_keys().unwrap();
        let [one, two, three]: [Address; 3] = [1, 2, 3].map(|port| format!("127.0.0.1:{port}").parse().unwrap());
        let founding = scene::founding();
        let at = |gateway: &str, address: &Address, issuer: u8| Mandate {
            identity_issuer: KeyId([issuer; 32]),
            addresses: vec![address.clone()],
            ..scene::mandate(gateway)
        };
        let mut head = Head { mandates: vec![at("quay", &one, 1), at("vps", &two, 2)], ..scene::head(&founding) };
        let node = NodeFile {
            schema: 1,
            org: "harbor".parse().unwrap(),
            org_id: founding.id,
            name: "web-1".parse().unwrap(),
            invite: None,
            gateways: vec![three.clone()],
            joined: true,
            trust: None,
        };
        let good = LastGood { schema: 1, address: two.clone(), first: Some("quay".parse().unwrap()) };
        scope.save_last_good(&good).unwrap();
        let asked = |head: &Head| {
            scope.save_known(&scene::known(&founding, head)).unwrap();
            scope.addresses(&node, NOW).unwrap()
        };
        assert_eq!(asked(&head), [two.clone(), one.clone(), three.clone()], "where one was met last");
        head.revocations.issuing_keys.insert(KeyId([2; 32]));
        assert_eq!(asked(&head), [one.clone(), three.clone(), two.clone()]);
        // Another that can issue is found there, too.
        head.mandates.push(at("harbor-2", &two, 3));
        assert_eq!(asked(&head), [two, one, three]);
    }
}
