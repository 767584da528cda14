//! The rule against a naive one, over histories that an operator's tool would sign, with real maps and proofs.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Epoch, InviteCut, Mandate, Revocations};
use identity::id::{KeyId, Serial};
use identity::key::{EdKey, Sign as _};
use identity::members::{Leaf, MembersMap, node_key};
use identity::principal::{OrgName, Principal};
use identity::signers::SignersRef;
use identity::time::Seconds;
use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_000_000);
const SET: u64 = 3;

fn name(number: u8) -> NodeName {
    format!("web-{number}").parse().unwrap()
}

fn key(number: u8) -> PublicKey {
    EdKey::from_seed(&[number + 1; 32]).public()
}

fn admission(number: u8) -> Digest {
    Digest([number + 100; 32])
}

fn voice() -> PublicKey {
    key(200)
}

/// One head: who has which name, and whose keys were revoked by then.
#[derive(Debug, Clone, Default)]
struct Page {
    holders: BTreeMap<u8, u8>,
    revoked: BTreeSet<u8>,
    floor: u64,
}

impl Page {
    fn map(&self) -> MembersMap {
        MembersMap::of(&self.leaves()).unwrap()
    }

    fn leaves(&self) -> Vec<Leaf> {
        let leaf = |(at, held): (&u8, &u8)| {
            let (node_key, manifest) = (key(*held).digest(), Digest([0; 32]));
            Leaf::Node(NodeLeaf { name: name(*at), node_key, admission: admission(*held), manifest })
        };
        self.holders.iter().map(leaf).collect()
    }

    fn listing(&self, at: u8) -> Listing {
        let (map, name) = (self.map(), name(at));
        match self.leaves().into_iter().find(|leaf| leaf.key() == node_key(&name)) {
            Some(Leaf::Node(leaf)) => Listing::Own { leaf, path: map.prove(node_key(&name)).unwrap() },
            _ => Listing::Unlisted { absence: map.prove_absence(node_key(&name)).unwrap() },
        }
    }
}

/// What operators do between two heads.
#[derive(Debug, Clone)]
enum Step {
    /// Gives a name to a key, if the tool lets them.
    Take(u8, u8),
    Revoke(u8),
    /// Drops a name that its machine left.
    Drop(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..3, 0_u8..6).prop_map(|(at, key)| Step::Take(at, key)),
        1 => (0_u8..6).prop_map(Step::Revoke),
        1 => (0_u8..3).prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..12)
}

/// Version 1 is an empty map. As the operator's tool does: a name changes hands only after a revocation, a key has one
/// name for ever, and whoever loses a leaf raises the floor.
fn history(steps: &[Step]) -> Vec<Page> {
    let mut pages = vec![Page::default()];
    let mut names: BTreeMap<u8, u8> = BTreeMap::new();
    for (step, version) in steps.iter().zip(2_u64..) {
        let mut next = pages.last().unwrap().clone();
        match step {
            Step::Take(at, key) => {
                let held = next.holders.get(at).copied();
                let free = held.is_none_or(|held| held == *key || next.revoked.contains(&held));
                if free && !next.revoked.contains(key) && names.get(key).is_none_or(|known| known == at) {
                    next.holders.insert(*at, *key);
                    names.insert(*key, *at);
                    if held.is_some_and(|held| held != *key) {
                        next.floor = version;
                    }
                }
            }
            Step::Revoke(key) => next.revoked.extend([*key]),
            Step::Drop(at) => {
                if next.holders.remove(at).is_some() {
                    next.floor = version;
                }
            }
        }
        pages.push(next);
    }
    pages
}

/// How a caller presents itself, and what is so around it.
#[derive(Debug, Clone)]
struct Caller {
    at: u8,
    key: u8,
    admission: u8,
    shown: usize,
    set: u64,
    invite_revoked: bool,
    mandated: bool,
    pinned: Option<u8>,
}

fn caller() -> impl Strategy<Value = Caller> {
    let often = prop::bool::weighted(0.85);
    let who = (0_u8..3, 0_u8..6, any::<prop::sample::Index>(), prop::option::weighted(0.3, 0_u8..6));
    (who, often, often, often, often).prop_map(|((at, key, shown, pinned), own, current, whole, mandated)| Caller {
        at,
        key,
        admission: if own { key } else { key + 50 },
        shown: shown.index(1 << 16),
        set: if current { SET } else { SET - 1 },
        invite_revoked: !whole,
        mandated,
        pinned,
    })
}

fn invite() -> InviteId {
    InviteId([5; 16])
}

fn head(pages: &[Page], caller: &Caller) -> Head {
    let page = pages.last().unwrap();
    let gateway: NodeName = "quay".parse().unwrap();
    let mandate = Mandate {
        gateway,
        voice: voice(),
        identity_issuer: KeyId([1; 32]),
        endpoint_issuer: KeyId([2; 32]),
        hosts: Vec::new(),
        kinds: BTreeSet::new(),
        names: Vec::new(),
        svid_ttl: Seconds::DAY,
        not_before: NOW - Seconds::DAY,
        not_after: if caller.mandated { NOW + Seconds::DAY } else { NOW },
        addresses: Vec::new(),
    };
    let mut revocations = Revocations::default();
    revocations.node_keys.extend(page.revoked.iter().map(|number| key(*number).digest()));
    if caller.invite_revoked {
        revocations.invites.insert(InviteCut { invite: invite(), seen: Vec::new() });
    }
    Head {
        version: pages.len() as u64,
        reverts: None,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: Some(page.map().root()),
        members_floor: page.floor,
        previous: Vec::new(),
        recent: Vec::new(),
        record: std::collections::BTreeMap::new(),
        mandates: vec![mandate],
        placements: Vec::new(),
        revocations,
        trust: Vec::new(),
        signers: SignersRef { version: SET, id: Digest([3; 32]) },
        epoch: Epoch::first(),
        release: None,
        fleet: None,
    }
}

fn ask(pages: &[Page], caller: &Caller) -> Result<Vouched, Unvouched> {
    let shown = caller.shown % pages.len();
    let (page, at) = (&pages[shown], name(caller.at));
    let listing = page.listing(caller.at);
    let shown_by = Shown::by(&listing, page.map().root(), &at).unwrap();
    let head = head(pages, caller);
    let org: OrgName = "harbor".parse().unwrap();
    let svid = BelievedSvid {
        principal: Principal::node(&org, &at),
        node: at.clone(),
        node_key: key(caller.key),
        serial: Serial([0; 16]),
        not_after: NOW + Seconds::HOUR,
        issued_by: "quay".parse().unwrap(),
    };
    let gateway = "quay".parse().unwrap();
    let sponsor = Sponsor::Signed { set: caller.set, invite: Some(invite()), gateway: &gateway, voice: voice() };
    let admission = if caller.admission == caller.key { admission(caller.key) } else { Digest([9; 32]) };
    let papers = Papers { name: &at, node_key: key(caller.key).digest(), admission, sponsor };
    let pinned = caller.pinned.map(|number| key(number).digest());
    let ground = Ground { head: &head, listed_in: shown as u64 + 1, pinned, left: &|_| false, now: NOW };
    vouch(&svid, papers, &shown_by, ground)
}

/// The same in plain tables: nothing if it is refused.
fn naive(pages: &[Page], caller: &Caller) -> Option<Vouched> {
    let (newest, shown) = (pages.last().unwrap(), caller.shown % pages.len());
    let is_newest = shown + 1 == pages.len();
    let alive = |number: &u8| !newest.revoked.contains(number);
    if !alive(&caller.key) || (shown as u64 + 1) < newest.floor {
        return None;
    }
    let rival = caller.pinned.is_some_and(|pinned| pinned != caller.key && alive(&pinned));
    let holder = pages[shown].holders.get(&caller.at);
    if holder == Some(&caller.key) {
        let fits = caller.admission == caller.key && (is_newest || !rival);
        return fits.then_some(Vouched::Listed);
    }
    let free = holder.is_none_or(|holder| !alive(holder));
    let sponsored = caller.set == SET && !caller.invite_revoked && caller.mandated;
    (free && is_newest && !rival && sponsored).then_some(Vouched::Invited)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_rule_says_what_a_naive_one_says(steps in steps(), caller in caller()) {
        let pages = history(&steps);
        prop_assert_eq!(ask(&pages, &caller).ok(), naive(&pages, &caller), "{:?} {:?}", pages, caller);
    }

    /// Whatever admissions, invites, mandates and old proofs a gateway that was taken over brings along.
    #[test]
    fn a_name_that_the_newest_map_gives_to_a_living_key_has_no_other(steps in steps(), caller in caller()) {
        let pages = history(&steps);
        let newest = pages.last().unwrap();
        let holder = newest.holders.get(&caller.at).filter(|holder| !newest.revoked.contains(holder));
        if holder.is_some_and(|holder| *holder != caller.key) {
            let found = ask(&pages, &caller);
            prop_assert!(found.is_err(), "{:?}: {:?} {:?}", found, pages, caller);
            let alive = !newest.revoked.contains(&caller.key);
            if alive && (caller.shown % pages.len()) + 1 == pages.len() {
                prop_assert!(found.unwrap_err().is_alarm(), "two keys under one name are no small matter");
            }
        }
    }

    #[test]
    fn a_proof_about_somebody_else_or_by_another_map_shows_nothing(steps in steps(), other in steps(), at in 0_u8..3) {
        let (pages, others) = (history(&steps), history(&other));
        let (page, another) = (pages.last().unwrap(), others.last().unwrap());
        let (root, wrong) = (page.map().root(), (at + 1) % 3);
        if another.map().root() != root {
            prop_assert!(Shown::by(&another.listing(at), root, &name(at)).is_err());
        }
        let shown = Shown::by(&page.listing(wrong), root, &name(at));
        let honest = Shown::by(&page.listing(at), root, &name(at)).unwrap();
        // A proof that one name is absent may serve for its neighbor in the map, and is then true of it.
        prop_assert!(shown.is_err() || shown.unwrap() == honest);
    }
}

#[test]
fn a_machine_that_left_frees_its_name_where_that_is_known() {
    let mut page = Page::default();
    page.holders.insert(0, 1);
    let caller = Caller {
        at: 0,
        key: 2,
        admission: 2,
        shown: 0,
        set: SET,
        invite_revoked: false,
        mandated: true,
        pinned: Some(1),
    };
    let pages = [page];
    assert!(matches!(ask(&pages, &caller), Err(Unvouched::NameOfAnother { .. })));
    let head = head(&pages, &caller);
    let (at, gone) = (name(0), key(1).digest());
    let shown = Shown::by(&pages[0].listing(0), pages[0].map().root(), &at).unwrap();
    let svid = BelievedSvid {
        principal: Principal::node(&"harbor".parse().unwrap(), &at),
        node: at.clone(),
        node_key: key(2),
        serial: Serial([0; 16]),
        not_after: NOW + Seconds::HOUR,
        issued_by: "quay".parse().unwrap(),
    };
    let papers = Papers { name: &at, node_key: key(2).digest(), admission: admission(2), sponsor: Sponsor::Ledger };
    let left = move |key| key == gone;
    let ground = Ground { head: &head, listed_in: 1, pinned: Some(gone), left: &left, now: NOW };
    assert_eq!(vouch(&svid, papers, &shown, ground), Ok(Vouched::Invited));
    let later = Ground { listed_in: 2, ..ground };
    assert_eq!(vouch(&svid, papers, &shown, later), Err(Unvouched::FromLater { found: 2 }));
    let another = Papers { name: &name(1), ..papers };
    assert_eq!(vouch(&svid, another, &shown, ground), Err(Unvouched::OtherPapers));
    let unshown = vouch(&svid, papers, &Shown::NoMap, ground);
    assert_eq!(unshown, Err(Unvouched::NotShown), "a head with a map wants a proof by it");
}
