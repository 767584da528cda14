//! Each reason for which something would break, and each for which it would not.

use ground::random;
use identity::authority::Authority;
use identity::bundle::Endpoint;
use identity::certificate::Validity;
use identity::head::{Grace, TrustState};
use identity::id::Digest;
use identity::key::Sign as _;
use identity::principal::OrgName;
use identity::signers::SignersRef;
use org::report::{Refused, TrustTold};
use trials::scene::{self, first_head};

use super::*;

const NOW: Timestamp = Timestamp::from_unix(2_000_000);
const LATER: Timestamp = Timestamp::from_unix(3_000_000);

fn org() -> OrgName {
    "harbor".parse().unwrap()
}

/// What all looks begin with: version 1 in grace, version 2 in use, and one gateway that is certified under both.
struct Stage {
    scene: Scene,
    roots: [Fingerprint; 2],
    authorities: [Authority<Endpoint>; 2],
    issuer: KeyId,
}

fn authority() -> Authority<Endpoint> {
    let key = random::p256().unwrap();
    Authority::root(&org(), &key, random::serial().unwrap(), Validity::from_now(NOW, Seconds::DAY.times(365))).unwrap()
}

fn mandate(gateway: &str, issuer: KeyId) -> Mandate {
    Mandate {
        identity_issuer: issuer,
        endpoint_issuer: issuer,
        not_before: Timestamp::from_unix(0),
        not_after: LATER,
        ..scene::mandate(gateway)
    }
}

fn stage(domain: Domain) -> Stage {
    let authorities = [authority(), authority()];
    let issuer = KeyId([7; 32]);
    let version = |version: u64, authority: &Authority<Endpoint>, issuers: BTreeMap<KeyId, Timestamp>| TrustVersion {
        version,
        roots: vec![authority.certificate().clone()],
        issuers,
    };
    let [first, second] = &authorities;
    let versions = vec![version(1, first, BTreeMap::new()), version(2, second, [(issuer, LATER)].into())];
    let roots = [first, second].map(|it| Fingerprint::of_certificate(it.certificate().as_ref()));
    let over = Grace { since: Timestamp::from_unix(1_000_000), until: Timestamp::from_unix(1_500_000) };
    let mut old = TrustLine::new(domain, 1, Digest([1; 32]), TrustState::Grace);
    old.grace = Some(over);
    let lines = vec![old, TrustLine::new(domain, 2, Digest([2; 32]), TrustState::Active)];
    let head = Head {
        version: 9,
        issued_at: NOW,
        fresh_until: LATER,
        mandates: vec![mandate("laptop", issuer)],
        trust: lines,
        ..first_head(SignersRef { version: 1, id: Digest([3; 32]) })
    };
    let scene = Scene {
        domain,
        head,
        held: versions,
        members: Vec::new(),
        invites: Vec::new(),
        waiting: Vec::new(),
        issued: Vec::new(),
        alone: false,
        now: NOW,
    };
    Stage { scene, roots, authorities, issuer }
}

fn told(versions: &[u64]) -> DomainTold {
    DomainTold {
        version: versions.iter().copied().max().unwrap_or(0),
        fingerprint: Fingerprint([0; 32]),
        versions: versions.to_vec(),
        trial: None,
        updated_at: None,
        refused: None,
    }
}

/// A member that was here a moment ago and goes by these versions, in both domains.
fn member(name: &str, versions: &[u64]) -> TrustStance {
    TrustStance {
        name: name.parse().unwrap(),
        last_seen: Some(NOW),
        svid_expires_at: Some(LATER),
        agent: Some("0.1.0".to_owned()),
        trust: Some(TrustTold { endpoint: told(versions), identity: told(versions), svids: Vec::new() }),
    }
}

fn retired(scene: &Scene) -> Vec<String> {
    told_by(scene, TrustStep::Retire { version: 1, early: false }, None)
}

fn told_by(scene: &Scene, step: TrustStep, brought: Option<&TrustVersion>) -> Vec<String> {
    let outcome = outcome(scene, step, brought).unwrap();
    outcome.breaks.iter().map(|it| format!("{} {}: {}", it.kind.word(), it.name, it.why)).collect()
}

/// Retiring version 1 with this one member in the endpoint domain breaks this.
fn check(change: impl FnOnce(&mut TrustStance), wanted: &[&str]) {
    let mut stage = stage(Domain::Endpoint);
    let mut node = member("web-1", &[1]);
    change(&mut node);
    stage.scene.members.push(node);
    assert_eq!(retired(&stage.scene), wanted);
}

fn endpoint(node: &mut TrustStance) -> &mut DomainTold {
    &mut node.trust.as_mut().unwrap().endpoint
}

#[test]
fn a_node_breaks_that_goes_by_none_of_the_roots_that_stay() {
    check(|node| endpoint(node).versions = vec![1, 2], &[]);
    check(|node| endpoint(node).versions = vec![2], &[]);
    check(|_| {}, &["node web-1: it goes by version 1 alone; last seen at 1970-01-24T03:33:20Z"]);
    check(
        |node| {
            let why = "no gateway answered under version 2".to_owned();
            endpoint(node).refused = Some(Refused { at: NOW, why });
        },
        &["node web-1: it goes by version 1 alone; it went back at 1970-01-24T03:33:20Z: no gateway answered under \
          version 2; last seen at 1970-01-24T03:33:20Z"],
    );
    check(
        |node| node.last_seen = Some(NOW - Seconds::DAY),
        &[
            "node web-1: it goes by version 1 alone; offline since 1970-01-23T03:33:20Z: it comes home by the signed head \
          when it is back",
        ],
    );
    // What it took before it went off, it has.
    check(
        |node| {
            endpoint(node).versions = vec![1, 2];
            node.last_seen = Some(NOW - Seconds::DAY);
        },
        &[],
    );
    check(
        |node| node.trust = None,
        &[
            "node web-1: it never said which roots it goes by: its agent 0.1.0 is too old for that; last seen at 1970-01-24T03:33:20Z",
        ],
    );
    check(
        |node| (node.trust, node.agent) = (None, None),
        &["node web-1: it never said which roots it goes by: its agent never ran; last seen at 1970-01-24T03:33:20Z"],
    );
}

#[test]
fn who_was_away_for_over_a_year_needs_an_operators_word() {
    let mut stage = stage(Domain::Endpoint);
    let now = LATER + Seconds::DAY.times(366);
    for mandate in &mut stage.scene.head.mandates {
        mandate.not_after = now + Seconds::DAY;
    }
    stage.scene.held[1].issuers.insert(stage.issuer, now + Seconds::DAY);
    stage.scene.now = now;
    stage.scene.members.push(member("web-1", &[1]));
    let told = retired(&stage.scene);
    assert!(told.len() == 1 && told.concat().contains("it needs an operator's word to come home"), "{told:?}");
}

#[test]
fn a_certificate_breaks_that_leads_only_to_what_goes_and_has_not_ended() {
    let svid = |principal: &str, roots: &[Fingerprint], not_after| SvidTold {
        principal: principal.parse().unwrap(),
        roots: roots.to_vec(),
        not_after,
    };
    let Stage { mut scene, roots: [old, new], .. } = stage(Domain::Identity);
    let mut node = member("web-1", &[1, 2]);
    node.trust.as_mut().unwrap().svids = vec![
        svid("spiffe://harbor/node/web-1", &[old], LATER),
        svid("spiffe://harbor/service/wiki", &[old], LATER),
        svid("spiffe://harbor/user/ann", &[old], LATER),
        svid("spiffe://harbor/service/both", &[old, new], LATER),
        svid("spiffe://harbor/service/over", &[old], NOW),
    ];
    scene.members.push(node.clone());
    let until = "its certificate leads only to the root of version 1, until 1970-02-04T17:20:00Z";
    assert_eq!(
        retired(&scene),
        [
            format!("certificate web-1: {until}"),
            format!("service service/wiki@web-1: {until}"),
            format!("user user/ann@web-1: {until}"),
        ]
    );
    scene.members = vec![TrustStance { last_seen: Some(NOW - Seconds::DAY), ..node.clone() }];
    let off = retired(&scene);
    assert!(off.iter().all(|told| told.ends_with("; `web-1` is offline since 1970-01-23T03:33:20Z")), "{off:?}");
    // Certificates say who is a member: gateways' HTTPS roots are no matter of theirs.
    let mut endpoint = stage(Domain::Endpoint).scene;
    endpoint.members.push(node);
    assert_eq!(retired(&endpoint), Vec::<String>::new());
}

#[test]
fn what_is_placed_on_a_node_that_said_nothing_is_named_with_it() {
    let mut scene = stage(Domain::Identity).scene;
    scene.members = vec![TrustStance { trust: None, ..member("web-1", &[]) }, member("web-2", &[2])];
    let place =
        |principal: &str, node: &str| Placement { principal: principal.parse().unwrap(), node: node.parse().unwrap() };
    scene.head.placements =
        vec![place("spiffe://harbor/service/wiki", "web-1"), place("spiffe://harbor/service/mail", "web-2")];
    let told = retired(&scene);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1], "service service/wiki@web-1: its certificate is on `web-1`, which never said where it leads");
}

#[test]
fn what_is_placed_on_a_node_whose_report_is_full_is_named_unless_it_is_told() {
    let Stage { mut scene, roots: [_, new], .. } = stage(Domain::Identity);
    let service = |nth: usize| -> Principal { format!("spiffe://harbor/service/s{nth}").parse().unwrap() };
    let told = |count: usize| {
        let svids = (0..count).map(|nth| SvidTold { principal: service(nth), roots: vec![new], not_after: LATER });
        let mut node = member("web-1", &[1, 2]);
        node.trust.as_mut().unwrap().svids = svids.collect();
        node
    };
    let place = |nth: usize| Placement { principal: service(nth), node: "web-1".parse().unwrap() };
    scene.head.placements = vec![place(0), place(TOLD)];
    scene.members = vec![told(TOLD - 1)];
    assert_eq!(retired(&scene), Vec::<String>::new(), "it would have told of it");
    scene.members = vec![told(TOLD)];
    let name = format!("s{TOLD}");
    assert_eq!(
        retired(&scene),
        [format!("service service/{name}@web-1: its certificate is on `web-1`, which tells of 256 and no more")]
    );
}

#[test]
fn a_gateway_breaks_whose_key_has_no_certificate_under_what_stays() {
    let Stage { mut scene, authorities: [first, second], issuer, .. } = stage(Domain::Endpoint);
    assert_eq!(retired(&scene), Vec::<String>::new());
    // Another one, which came after version 2 was made.
    let key = random::p256().unwrap();
    let name = "vps".parse().unwrap();
    let certified = |by: &Authority<Endpoint>, days| {
        let life = Validity::from_now(NOW - Seconds::DAY, Seconds::DAY.times(days));
        let made = by.certify_issuer(&org(), &name, &key, random::serial().unwrap(), life).unwrap();
        made.certificate().clone()
    };
    let id = certificate::key_id(key.public()).unwrap();
    scene.head.mandates.push(mandate("vps", id));
    let cut = "gateway vps: its issuing key has no certificate under the roots of version 2: nobody who trusts only \
               those would find it";
    assert_eq!(retired(&scene), [cut]);
    for (certificate, breaks) in
        [(certified(&first, 30), true), (certified(&second, 30), false), (certified(&second, 1), true)]
    {
        scene.issued = vec![(id, certificate)];
        assert_eq!(!retired(&scene).is_empty(), breaks);
    }
    // A mandate that is over is nobody's loss.
    scene.head.mandates.last_mut().unwrap().not_after = NOW;
    assert_eq!(retired(&scene), Vec::<String>::new());
    assert!(scene.head.mandates.iter().any(|mandate| mandate.endpoint_issuer == issuer));
}

#[test]
fn a_certificate_that_has_ended_leads_nowhere() {
    let Stage { mut scene, issuer, .. } = stage(Domain::Identity);
    let told = |scene: &Scene| told_by(scene, TrustStep::Retire { version: 1, early: false }, None);
    scene.held[1].issuers.insert(issuer, NOW + Seconds(1));
    assert_eq!(told(&scene), Vec::<String>::new());
    scene.held[1].issuers.insert(issuer, NOW);
    assert_eq!(
        told(&scene),
        [
            "gateway laptop: its issuing key's certificate ended at 1970-01-24T03:33:20Z under the roots of version 2: what \
          it issues would be worth nothing"
        ]
    );
}

#[test]
fn what_pins_a_root_that_goes_is_named_by_what_it_is() {
    let Stage { mut scene, roots: [old, new], .. } = stage(Domain::Endpoint);
    let invite = |nth: u8, kind, root| LiveInvite {
        id: InviteId([nth; 16]),
        label: if nth == 1 { "rack 3".to_owned() } else { String::new() },
        kind,
        root,
        expires_at: LATER,
    };
    scene.invites = vec![
        invite(1, InviteKind::Token, old),
        invite(2, InviteKind::Pattern, old),
        invite(3, InviteKind::Bundle, old),
        invite(4, InviteKind::Machine, old),
        invite(5, InviteKind::Key, old),
        invite(6, InviteKind::Token, new),
    ];
    scene.waiting = vec![("web-7".parse().unwrap(), old), ("web-8".parse().unwrap(), new)];
    let pins = |what: &str| format!("{what} the root {}", short(old));
    let until = "and it is good until 1970-02-04T17:20:00Z";
    let id = |nth: u8| InviteId([nth; 16]);
    assert_eq!(
        retired(&scene),
        [
            format!("waiting machine web-7: it waits for a person, with a code that {}", pins("pins")),
            format!("invite {}: \"rack 3\": {}, {until}", id(1), pins("its code pins")),
            format!("invite {}: {}, {until}", id(2), pins("its code pins")),
            format!("bundle file {}: {}, {until}", id(3), pins("the file that was made of it pins")),
            format!("bundle file {}: {}, {until}", id(4), pins("the file that was made of it pins")),
            format!("image {}: {}, {until}", id(5), pins("images with its key pin")),
        ]
    );
    scene.domain = Domain::Identity;
    scene.head.trust.iter_mut().for_each(|line| line.domain = Domain::Identity);
    assert_eq!(retired(&scene), Vec::<String>::new(), "nobody pins who may be a member");
}

#[test]
fn before_a_version_is_used_everybody_must_have_it_and_each_gateway_lead_to_it() {
    let mut scene = stage(Domain::Endpoint).scene;
    for (line, state) in scene.head.trust.iter_mut().zip([TrustState::Active, TrustState::Staged]) {
        (line.state, line.grace) = (state, None);
    }
    scene.members = vec![member("web-1", &[1, 2]), member("web-2", &[1]), member("web-3", &[1])];
    endpoint(&mut scene.members[2]).trial = Some(2);
    let step = TrustStep::Activate { version: 2, grace: Seconds::DAY };
    assert_eq!(
        told_by(&scene, step, None),
        [
            "node web-2: it has not adopted version 2; last seen at 1970-01-24T03:33:20Z",
            "node web-3: it tries version 2; last seen at 1970-01-24T03:33:20Z"
        ]
    );
    scene.head.mandates.push(mandate("vps", KeyId([8; 32])));
    assert!(told_by(&scene, step, None)[0].starts_with("gateway vps: its issuing key has no certificate"));
    // And to publish, each key must be known.
    scene.head.trust.pop();
    let told = told_by(&scene, TrustStep::Publish { bundle: Digest([9; 32]) }, None);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("gateway vps: it has not told its issuing key"), "{told:?}");
}

#[test]
fn a_rollback_goes_on_with_the_same_roots_under_a_new_number() {
    let mut scene = stage(Domain::Endpoint).scene;
    for (line, state) in scene.head.trust.iter_mut().zip([TrustState::Active, TrustState::Staged]) {
        (line.state, line.grace) = (state, None);
    }
    // Nobody has heard of version 3, and it is what they have.
    scene.members = vec![member("web-1", &[1, 2]), member("web-2", &[1]), member("web-3", &[2])];
    let brought = TrustVersion { version: 3, ..scene.held[0].clone() };
    let step = TrustStep::Rollback { bundle: Digest([9; 32]), reverts: 2, grace: Seconds(0) };
    assert_eq!(
        told_by(&scene, step, Some(&brought)),
        ["node web-3: it goes by version 2 alone; last seen at 1970-01-24T03:33:20Z"]
    );
}

#[test]
fn when_a_root_was_stolen_those_are_named_who_cannot_hear_of_it() {
    let mut scene = stage(Domain::Identity).scene;
    let old = TrustStance { trust: None, ..member("web-3", &[]) };
    let off = TrustStance { last_seen: Some(NOW - Seconds::DAY), ..member("web-2", &[1, 2]) };
    scene.members = vec![member("web-1", &[1, 2]), off, old];
    let brought = TrustVersion {
        version: 3,
        roots: vec![authority().certificate().clone()],
        issuers: [(KeyId([7; 32]), LATER)].into(),
    };
    let told = told_by(&scene, TrustStep::Replace { bundle: Digest([9; 32]) }, Some(&brought));
    assert_eq!(
        told,
        [
            "node web-2: it goes by version 1, 2 alone; offline since 1970-01-23T03:33:20Z: it comes home by its node key \
             when it is back",
            "node web-3: it never said which roots it goes by: its agent 0.1.0 is too old for that; last seen at 1970-01-24T03:33:20Z",
        ]
    );
}

#[test]
fn without_a_gateway_what_the_ledger_does_not_tell_is_not_known() {
    let Stage { mut scene, roots: [root, _], .. } = stage(Domain::Endpoint);
    scene.alone = true;
    scene.members = vec![TrustStance { last_seen: None, agent: None, trust: None, ..member("web-1", &[]) }];
    let (id, kind) = (InviteId([1; 16]), InviteKind::Token);
    scene.invites = vec![LiveInvite { id, label: String::new(), kind, root, expires_at: LATER }];
    let step = TrustStep::Retire { version: 1, early: true };
    let outcome = outcome(&scene, step, None).unwrap();
    assert_eq!(outcome.breaks.iter().map(|it| it.kind).collect::<Vec<_>>(), [DependentKind::Invite]);
    assert_eq!(outcome.unknown.iter().map(Break::in_words).collect::<Vec<_>>(), ["node web-1"]);
}

#[test]
fn each_is_waived_by_its_own_name_and_a_name_too_many_is_told() {
    let Stage { mut scene, roots: [old, _], .. } = stage(Domain::Endpoint);
    scene.members = vec![member("web-1", &[1]), member("web-2", &[1])];
    let id = InviteId([0xab; 16]);
    let (kind, label) = (InviteKind::Token, String::new());
    scene.invites = vec![LiveInvite { id, label, kind, root: old, expires_at: LATER }];
    let outcome = outcome(&scene, TrustStep::Retire { version: 1, early: false }, None).unwrap();
    let open = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let WaiveOutcome { open, idle, several } = outcome.waive(&names);
        assert_eq!(several, Vec::<String>::new());
        (open.iter().map(|it| it.name.clone()).collect::<Vec<_>>(), idle)
    };
    let (full, some) = (id.to_string(), id.to_string()[..8].to_owned());
    assert_eq!(open(&[]), (vec!["web-1".to_owned(), "web-2".to_owned(), full.clone()], vec![]));
    assert_eq!(open(&["web-1", &some]), (vec!["web-2".to_owned()], vec![]));
    assert_eq!(open(&["web-1", "web-2", &full]), (vec![], vec![]));
    assert_eq!(open(&["web-1", "web-2", &full, "web-9"]), (vec![], vec!["web-9".to_owned()]));
    // The beginning of a node's name is another name.
    assert_eq!(open(&["web-", &some[..4]]).0.len(), 3);
}

#[test]
fn one_name_does_not_waive_a_node_and_the_gateway_that_it_is() {
    let Stage { mut scene, roots: [old, _], .. } = stage(Domain::Endpoint);
    scene.head.mandates.extend([mandate("vps", KeyId([8; 32])), mandate("far", KeyId([9; 32]))]);
    scene.members = vec![member("vps", &[1]), member("web-7", &[1])];
    scene.waiting = vec![("web-7".parse().unwrap(), old)];
    let outcome = outcome(&scene, TrustStep::Retire { version: 1, early: false }, None).unwrap();
    let open = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let WaiveOutcome { open, idle, .. } = outcome.waive(&names);
        (open.iter().map(|it| it.in_words()).collect::<Vec<_>>(), idle)
    };
    let names: Vec<&str> = outcome.breaks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["far", "gateway/vps", "vps", "web-7", "waiting/web-7"]);
    assert_eq!(open(&names), (vec![], vec![]), "each is waived by the name that it is told by");
    let rest = |gone: &str| {
        let all = ["gateway far", "gateway vps", "node vps", "node web-7", "waiting machine web-7"];
        all.iter().filter(|it| **it != gone).map(|it| (*it).to_owned()).collect::<Vec<_>>()
    };
    for (name, gone) in [
        ("vps", "node vps"),
        ("node/vps", "node vps"),
        ("gateway/vps", "gateway vps"),
        ("waiting/web-7", "waiting machine web-7"),
        ("web-7", "node web-7"),
        ("far", "gateway far"),
        ("gateway/far", "gateway far"),
    ] {
        assert_eq!(open(&[name]), (rest(gone), vec![]), "{name}");
    }
    assert_eq!(open(&["node/far"]).1, ["node/far"]);
}

#[test]
fn the_beginning_of_several_ids_waives_none_of_them() {
    let Stage { mut scene, roots: [old, _], .. } = stage(Domain::Endpoint);
    let invite = |last: u8| {
        let mut id = [0xab; 16];
        id[15] = last;
        LiveInvite { id: InviteId(id), label: String::new(), kind: InviteKind::Token, root: old, expires_at: LATER }
    };
    scene.invites = vec![invite(1), invite(2)];
    let outcome = outcome(&scene, TrustStep::Retire { version: 1, early: false }, None).unwrap();
    let some = scene.invites[0].id.to_string()[..12].to_owned();
    let waived = outcome.waive(std::slice::from_ref(&some));
    assert_eq!((waived.open.len(), waived.idle.len(), waived.several), (2, 0, vec![some]));
    let whole = outcome.waive(&[scene.invites[0].id.to_string()]);
    assert_eq!((whole.open.len(), whole.several.len()), (1, 0));
}
