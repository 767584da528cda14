//! Two machines meet, and one of them has a thief's papers: replaced signers, a gateway that was taken over, old heads.

use identity::authority::Authority;
use identity::bundle::{Identity, Roots};
use identity::certificate::binding::BindingTerms;
use identity::certificate::{Validity, key_id, make_request, read_request};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::{Correlation, Digest, Serial};
use identity::key::Sign as _;
use identity::members::{Leaf, Listing, MembersMap, node_key as place_of};
use identity::principal::{OrgName, Principal, PrincipalKind};
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};
use identity::verifier::{ProvenSvid, Side, Standard};

use crate::invite::admission::{Claim, ClaimAuthority};
use crate::invite::approve::{Decision, Verdict};
use crate::invite::{Approval, InviteKind};
use crate::ledger::counts::NotCounted;
use crate::ledger::entry::{Action, SignedEntry, Stamp, Under};
use crate::ledger::evidence::BadEvidence;
use crate::ledger::ground::Ground;
use crate::ledger::heads::HeadRecord;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::world::{self, FRESH, Org, day, ed, machine, node, quorum};
use crate::member::peer::{NotAPeer, Peer, PeerContext, Presented};

const NOW: Timestamp = day(1);

/// An org as a machine knows it that met nobody yet: set 1 is `ann`, and one gateway, `g1`, was taken over.
struct Harbor {
    org: Org,
    name: OrgName,
    root: Authority<Identity>,
    issuer: Authority<Identity>,
    set: SignerSet,
    head: Head,
    by: &'static str,
    leaves: Vec<Leaf>,
}

fn leaf(name: &str, key: &str) -> Leaf {
    Leaf::Node(world::leaf(name, key))
}

impl Harbor {
    fn new() -> Self {
        let org = Org::new(1, &["ann"]);
        let name: OrgName = "harbor".parse().unwrap();
        let year = Validity::from_now(NOW, Seconds::DAY.times(365));
        let root: Authority<Identity> =
            Authority::root(&name, machine("root").as_ref(), Serial([1; 16]), year).unwrap();
        let issuer =
            root.certify_issuer(&name, &node("g1"), machine("issuer").as_ref(), Serial([2; 16]), year).unwrap();
        let (set, mut head) = (org.set(), org.body(&org.first));
        head.version = 2;
        head.mandates[0].identity_issuer = issuer.key_id();
        let mut harbor = Self { org, name, root, issuer, set, head, by: "ann", leaves: Vec::new() };
        harbor.list(vec![leaf("alpha", "k3"), leaf("beta", "k4")]);
        harbor
    }

    fn map(&self) -> MembersMap {
        MembersMap::of(&self.leaves).unwrap()
    }

    fn list(&mut self, leaves: Vec<Leaf>) {
        self.leaves = leaves;
        self.head.members = Some(self.map().root());
    }

    fn envelope(&self) -> Envelope {
        self.org.seal(&self.head, &[self.by])
    }

    /// The next head, which names the one before.
    fn publish(&mut self, change: impl FnOnce(&mut Head)) {
        let before = self.envelope().digest();
        self.head.version += 1;
        self.head.previous = vec![before];
        self.head.recent.insert(0, before);
        change(&mut self.head);
    }

    /// `ann` is replaced by `bob`.
    fn replace_signer(&mut self) {
        self.set = SignerSet::later(self.org.founding.id, 2, quorum(1, &["bob"]));
        self.by = "bob";
        let signers = self.set.as_ref();
        self.publish(|head| head.signers = signers);
    }

    fn own(&self, name: &str) -> Listing {
        let found = self.leaves.iter().find_map(|leaf| match leaf {
            Leaf::Node(leaf) if leaf.name == node(name) => Some(leaf.clone()),
            _ => None,
        });
        let (place, map) = (place_of(&node(name)), self.map());
        match found {
            Some(leaf) => Listing::Own { leaf, path: map.prove(place).unwrap(), class: None },
            None => Listing::Unlisted { absence: map.prove_absence(place).unwrap() },
        }
    }

    /// An SVID for the name, by the issuing key of the gateway that was taken over, bound by this node key.
    fn meet(&self, name: &str, key: &str, presented: &Presented) -> Result<Peer, NotAPeer> {
        self.meet_as(&Principal::node(&self.name, &node(name)), (name, key), presented)
    }

    /// The same for whoever is said to be at home on the machine of that name.
    fn meet_as(&self, who: &Principal, (name, key): (&str, &str), presented: &Presented) -> Result<Peer, NotAPeer> {
        let org = self.org.founding.id;
        let (svid_key, validity) = (machine("svid"), Validity::from_now(NOW, Seconds::HOUR));
        let (id, not_after) = (key_id(svid_key.public()).unwrap(), validity.not_after);
        let terms = BindingTerms { org, principal: who, node: &node(name), svid_key: id, not_after };
        let binding = terms.sign(machine(key).as_ref()).unwrap();
        let request = read_request(&make_request(svid_key.as_ref()).unwrap()).unwrap();
        let svid = self.issuer.issue_svid(who, &request, &binding, Serial([3; 16]), validity).unwrap();
        let chain = [svid, self.issuer.certificate().clone()];
        let roots = Roots::<Identity>::from_certificates(vec![self.root.certificate().clone()]);
        let standard = Standard { org, name: &self.name, roots: &roots, head: &self.head };
        let proven = ProvenSvid::prove(&chain, Side::Client, standard, NOW).unwrap();
        self.known(NOW, |context| Peer::recognize(&proven, presented, context))
    }

    fn known<T>(&self, now: Timestamp, ask: impl FnOnce(PeerContext<'_>) -> T) -> T {
        let roots = Roots::<Identity>::from_certificates(vec![self.root.certificate().clone()]);
        let standard = Standard { org: self.org.founding.id, name: &self.name, roots: &roots, head: &self.head };
        let (envelope, head) = (self.envelope(), self.head.clone());
        let sets = [self.org.set(), self.set.clone()].into_iter().map(|set| (set.id, set)).collect();
        let ground = Ground::alone(self.set.clone(), sets, HeadRecord { digest: envelope.digest(), envelope, head });
        ask(PeerContext { standard, ground: &ground, pinned: &|_| None, now })
    }

    /// Does what was opened before stay open, and may something new be?
    fn leaves(&self, peer: &Peer, now: Timestamp) -> (Result<(), NotAPeer>, bool) {
        self.known(now, |context| (peer.endures(context), peer.check(context).is_ok()))
    }

    fn shown(&self, name: &str, admission: Option<Envelope>) -> Presented {
        Presented { by: self.envelope(), listing: Some(self.own(name)), admission }
    }

    /// One use at `g1`, for these names.
    fn invite(&self, names: &str, by: &str) -> Envelope {
        self.org.invite("i", &[names], &[("g1", 1)], (END, &[by]))
    }

    /// An entry of the gateway that was taken over.
    fn admission(&self, claim: &Claim, by: &[&str], invite: Option<Envelope>, approval: Option<Envelope>) -> Envelope {
        let claim = self.org.seal(claim, by).signed(machine("k9").as_ref()).unwrap();
        let action = Action::NodeAdmit { claim, invite, approval };
        SignedEntry::write(self.org.founding.id, None, &ed("g1"), SAID.0, SAID.1, action).unwrap().envelope
    }

    fn admitted(&self, name: &str, names: &str, by: &str) -> Envelope {
        self.admission(&invited(name), &["i"], Some(self.invite(names, by)), None)
    }
}

/// What an entry says of itself, and no rule reads.
const SAID: (Under, Stamp) =
    (Under { version: 1, digest: Digest([0; 32]) }, Stamp { at: NOW, correlation: Correlation([0; 8]) });

/// Until this day the invite is good.
const END: u64 = 3;

fn invited(name: &str) -> Claim {
    world::claim("k9", name, ClaimAuthority::Invite(super::world::invite_id("i")))
}

#[test]
fn a_listed_machine_is_believed_by_the_newest_head_and_by_those_that_it_names() {
    let mut harbor = Harbor::new();
    let early = harbor.shown("alpha", None);
    harbor.meet("alpha", "k3", &early).unwrap();
    harbor.publish(|_| {});
    harbor.meet("alpha", "k3", &early).unwrap();
    harbor.meet("alpha", "k3", &harbor.shown("alpha", None)).unwrap();
    harbor.publish(|head| head.recent.clear());
    let found = harbor.meet("alpha", "k3", &early).map(drop);
    assert_eq!(found, Err(NotAPeer::TooOld { found: 2, known: 4 }));
    // One that is not known here yet: the newer side hands its head over first.
    let older = Harbor::new();
    let found = older.meet("alpha", "k3", &harbor.shown("alpha", None)).map(drop);
    assert_eq!(found, Err(NotAPeer::FromLater { found: 4 }));
}

/// The old key signs a second "head 2" whose map gives a member's name to the thief.
#[test]
fn a_replaced_signer_forges_no_old_head() {
    let mut harbor = Harbor::new();
    let (early, true_leaves) = (harbor.head.clone(), harbor.leaves.clone());
    harbor.replace_signer();
    let mut thief = Harbor::new();
    thief.list(vec![leaf("alpha", "k66")]);
    thief.head.recent = Vec::new();
    for version in [1, 2, early.version, 9] {
        thief.head.version = version;
        let found = harbor.meet("alpha", "k66", &thief.shown("alpha", None)).map(drop);
        assert!(matches!(found, Err(NotAPeer::TooOld { .. } | NotAPeer::FromLater { .. })), "{version}: {found:?}");
    }
    // The honest head of that time is named by the one in force, and its path still counts.
    let mut before = Harbor::new();
    before.list(true_leaves);
    harbor.meet("alpha", "k3", &before.shown("alpha", None)).unwrap();
}

/// One of several signers had a head co-signed that names another one, which she alone signed.
#[test]
fn a_head_that_too_few_signed_shows_nobody_also_if_the_one_in_force_names_it() {
    let mut harbor = Harbor::new();
    let mut thief = Harbor::new();
    thief.list(vec![leaf("alpha", "k66")]);
    thief.by = "eve";
    let hidden = thief.envelope().digest();
    harbor.publish(|head| head.recent.insert(0, hidden));
    let found = harbor.meet("alpha", "k66", &thief.shown("alpha", None)).map(drop);
    assert!(matches!(found, Err(NotAPeer::NotSigned(_))), "{found:?}");
}

#[test]
fn a_claim_by_signers_counts_while_they_sign_and_not_for_ever() {
    let mut harbor = Harbor::new();
    let until = Some(day(2));
    let claim = Claim { until, ..world::claim("k9", "payroll", ClaimAuthority::Signers) };
    let admission = harbor.admission(&claim, &["ann"], None, None);
    harbor.meet("payroll", "k9", &harbor.shown("payroll", Some(admission.clone()))).unwrap();
    let endless = Claim { until: None, ..claim.clone() };
    let endless = harbor.admission(&endless, &["ann"], None, None);
    let found = harbor.meet("payroll", "k9", &harbor.shown("payroll", Some(endless))).map(drop);
    assert_eq!(found, Err(NotMember::Word(NotCounted::NoEnd).into()));
    harbor.replace_signer();
    let found = harbor.meet("payroll", "k9", &harbor.shown("payroll", Some(admission))).map(drop);
    let not_signed = NotCounted::NotSigned { found: 0, needed: 1 };
    assert_eq!(found, Err(NotMember::Word(not_signed).into()));
    // Signed anew by those of now, the same claim counts again.
    let again = harbor.admission(&claim, &["ann", "bob"], None, None);
    harbor.meet("payroll", "k9", &harbor.shown("payroll", Some(again))).unwrap();
}

#[test]
fn an_invite_counts_by_the_signers_of_now_until_it_is_over_or_revoked() {
    let mut harbor = Harbor::new();
    let papers = |harbor: &Harbor, by: &str| harbor.shown("web-7", Some(harbor.admitted("web-7", "web-*", by)));
    harbor.meet("web-7", "k9", &papers(&harbor, "ann")).unwrap();
    let refused = |harbor: &Harbor, by: &str| harbor.meet("web-7", "k9", &papers(harbor, by)).map(drop).unwrap_err();
    assert_eq!(refused(&harbor, "eve"), NotMember::Invite(NotCounted::NotSigned { found: 0, needed: 1 }).into());
    let (end, fresh) = (day(END), Seconds::DAY.times(FRESH));
    // It may have been over for one `fresh` span when the head was made, and not longer.
    harbor.publish(|head| (head.issued_at, head.fresh_until) = (end + fresh - Seconds(1), end + fresh + fresh));
    harbor.meet("web-7", "k9", &papers(&harbor, "ann")).unwrap();
    harbor.publish(|head| (head.issued_at, head.fresh_until) = (end + fresh, end + fresh + fresh));
    assert_eq!(refused(&harbor, "ann"), NotMember::Invite(NotCounted::Over { until: end }).into());
    let mut harbor = Harbor::new();
    harbor.replace_signer();
    assert_eq!(refused(&harbor, "ann"), NotMember::Invite(NotCounted::NotSigned { found: 0, needed: 1 }).into());
    harbor.meet("web-7", "k9", &papers(&harbor, "bob")).unwrap();
    let closed = ed("g1").public();
    harbor.publish(|head| head.revocations.voices.extend([closed]));
    assert_eq!(refused(&harbor, "bob"), NotMember::NoMandate.into());
}

/// An invite for any name made `web-7` a `web-*` for its peers, and whatever the fleet says of `web-7` itself.
#[test]
fn a_machine_has_what_is_said_of_its_name_only_if_its_invite_speaks_of_such_names() {
    let harbor = Harbor::new();
    for (names, meant) in [("*", false), ("web-*", true), ("web-7", true)] {
        let peer =
            harbor.meet("web-7", "k9", &harbor.shown("web-7", Some(harbor.admitted("web-7", names, "ann")))).unwrap();
        assert_eq!(peer.is_meant(), meant, "{names}");
    }
    assert!(harbor.meet("alpha", "k3", &harbor.shown("alpha", None)).unwrap().is_meant());
}

#[test]
fn no_admission_speaks_for_a_name_that_the_operators_gave_to_another() {
    let mut harbor = Harbor::new();
    let papers = harbor.shown("beta", Some(harbor.admitted("beta", "*", "ann")));
    let found = harbor.meet("beta", "k9", &papers).map(drop).unwrap_err();
    assert!(matches!(&found, NotAPeer::NotMember(why) if why.is_alarm()), "{found:?}");
    // Nobody else's papers help either, nor a name that was ended for good.
    let papers = harbor.shown("web-7", Some(harbor.admitted("web-8", "*", "ann")));
    assert_eq!(harbor.meet("web-7", "k9", &papers).map(drop), Err(NotMember::OtherEvidence.into()));
    assert_eq!(harbor.meet("web-7", "k9", &harbor.shown("web-7", None)).map(drop), Err(NotMember::NoAdmission.into()));
    let gone = Principal::node(&harbor.name, &node("beta"));
    harbor.publish(|head| head.revocations.principals.extend([gone]));
    assert!(harbor.meet("beta", "k4", &harbor.shown("beta", None)).is_err());
}

/// A gateway that was taken over puts a yes beside an invite that asks for none: nobody looked.
#[test]
fn a_yes_that_nobody_signed_makes_no_machine_one_of_a_class() {
    let (harbor, claim) = (Harbor::new(), invited("web-7"));
    let about = harbor.org.seal(&claim, &[]).digest();
    let said = harbor.org.seal(&Decision { about, verdict: Verdict::Approve, until: Some(NOW + Seconds::DAY) }, &[]);
    let admission = harbor.admission(&claim, &["i"], Some(harbor.invite("*", "ann")), Some(said));
    assert!(!harbor.meet("web-7", "k9", &harbor.shown("web-7", Some(admission))).unwrap().is_meant());
}

/// Without a gateway's voice there is no admission, whoever signs the claim and whatever mandate is made up.
#[test]
fn an_issuing_key_and_replaced_signers_without_a_voice_speak_for_nobody() {
    let mut harbor = Harbor::new();
    harbor.replace_signer();
    let claim = Claim { until: Some(day(2)), ..world::claim("k9", "payroll", ClaimAuthority::Signers) };
    let claim = harbor.org.seal(&claim, &["ann"]).signed(machine("k9").as_ref()).unwrap();
    let action = Action::NodeAdmit { claim, invite: None, approval: None };
    let made_up = SignedEntry::write(harbor.org.founding.id, None, &ed("g9"), SAID.0, SAID.1, action).unwrap().envelope;
    let found = harbor.meet("payroll", "k9", &harbor.shown("payroll", Some(made_up.clone()))).map(drop);
    assert_eq!(found, Err(NotMember::NoMandate.into()));
    assert_eq!(
        harbor.meet("payroll", "k9", &harbor.shown("payroll", None)).map(drop),
        Err(NotMember::NoAdmission.into())
    );
    assert!(harbor.meet("alpha", "k9", &harbor.shown("alpha", Some(made_up.clone()))).is_err(), "a listed name");
    // The head that mandates the voice is one of theirs.
    let mut thief = Harbor::new();
    thief.head.version = 9;
    thief.head.mandates.push(world::mandate("g9", "g9"));
    let found = harbor.meet("payroll", "k9", &thief.shown("payroll", Some(made_up))).map(drop);
    assert!(matches!(found, Err(NotAPeer::TooOld { .. } | NotAPeer::FromLater { .. })), "{found:?}");
}

/// Whoever has both needs no gateway for an SVID of that machine, nor of whoever the fleet places there.
#[test]
fn an_issuing_key_and_a_stolen_node_key_speak_for_that_machine_until_it_is_revoked_and_for_no_other() {
    let mut harbor = Harbor::new();
    harbor.head.mandates[0].kinds.insert(PrincipalKind::User);
    let user = Principal::user(&harbor.name, &"ann".parse().unwrap());
    harbor.meet("alpha", "k3", &harbor.shown("alpha", None)).unwrap();
    let peer = harbor.meet_as(&user, ("alpha", "k3"), &harbor.shown("alpha", None)).unwrap();
    assert_eq!((peer.principal(), peer.node()), (&user, &node("alpha")), "the access table asks for both");
    for name in ["beta", "web-7"] {
        for who in [Principal::node(&harbor.name, &node(name)), user.clone()] {
            let found = harbor.meet_as(&who, (name, "k3"), &harbor.shown(name, None)).map(drop).unwrap_err();
            let not_its =
                matches!(&found, NotAPeer::NotMember(NotMember::NameOfAnother { .. } | NotMember::NoAdmission));
            assert!(not_its, "{who} on {name}: {found:?}");
        }
    }
    harbor.publish(|head| head.revocations.node_keys.extend([world::key("k3")]));
    assert!(matches!(harbor.meet("alpha", "k3", &harbor.shown("alpha", None)), Err(NotAPeer::Svid(_))));
}

/// A gateway that was taken over needs no secret for a pattern, and perhaps one signer's yes.
#[test]
fn who_proved_nothing_provides_nothing_and_speaks_for_no_user_whoever_says_yes() {
    let harbor = Harbor::new();
    let own = |authority| world::claim("k9", "web-7", authority);
    for (kind, claim) in [
        (InviteKind::Pattern, own(ClaimAuthority::Pattern)),
        (InviteKind::Token, own(ClaimAuthority::Invite(super::world::invite_id("i")))),
    ] {
        let mut body = world::invite("i", &["web-*"], &[("g1", 1)], END);
        let key = body.key.filter(|_| kind.is_proven());
        (body.kind, body.key, body.approval) = (kind, key, Approval::Human);
        let hands: &[&str] = if kind.is_proven() { &["i"] } else { &[] };
        let about = harbor.org.seal(&claim, hands).digest();
        let yes = Decision { about, verdict: Verdict::Approve, until: Some(NOW + Seconds::DAY) };
        let (invite, yes) = (harbor.org.seal(&body, &["ann"]), harbor.org.seal(&yes, &["ann"]));
        let papers = harbor.shown("web-7", Some(harbor.admission(&claim, hands, Some(invite), Some(yes))));
        let peer = harbor.meet("web-7", "k9", &papers).unwrap();
        assert_eq!((peer.is_meant(), peer.may_carry()), (true, kind.is_proven()), "{kind}");
    }
    assert!(harbor.meet("alpha", "k3", &harbor.shown("alpha", None)).unwrap().may_carry());
}

/// Nobody but its own voice writes into a chain, and nothing but an admission lets anybody in.
#[test]
fn an_admission_is_an_entry_that_a_mandated_voice_signed() {
    let harbor = Harbor::new();
    let claim = harbor.org.seal(&invited("web-7"), &["i"]).signed(machine("k9").as_ref()).unwrap();
    let action = Action::NodeAdmit { claim, invite: Some(harbor.invite("*", "ann")), approval: None };
    let write = |by: &str, action: Action| {
        SignedEntry::write(harbor.org.founding.id, None, &ed(by), SAID.0, SAID.1, action).unwrap()
    };
    let meets = |envelope: Envelope| harbor.meet("web-7", "k9", &harbor.shown("web-7", Some(envelope))).map(drop);
    assert_eq!(meets(write("g1", action.clone()).envelope), Ok(()));
    assert_eq!(meets(write("g9", action.clone()).envelope), Err(NotMember::NoMandate.into()));
    let unsigned = harbor.org.seal(&write("g1", action).entry, &["g9"]);
    assert!(matches!(meets(unsigned), Err(NotAPeer::Admission(_))));
    let joined = Action::NodeJoin { node_key: world::key("k9"), name: node("web-7") };
    assert_eq!(meets(write("g1", joined).envelope), Err(BadEvidence::NotAnAdmission.into()));
}

type Change = fn(&mut Head);

fn over() -> NotCounted {
    NotCounted::Over { until: NOW }
}

/// Whoever adds a reason decides here whether it ends what is open.
fn stays_open(why: &NotMember) -> bool {
    match why {
        NotMember::TooOld | NotMember::NotShown | NotMember::ApprovalOver { .. } => true,
        NotMember::Invite(why) | NotMember::Word(why) => matches!(why, NotCounted::Over { .. }),
        NotMember::NoHead
        | NotMember::Revoked
        | NotMember::NameEnded(_)
        | NotMember::NoAdmission
        | NotMember::OtherEvidence
        | NotMember::OtherAdmission
        | NotMember::NameOfAnother { .. }
        | NotMember::PinnedToAnother { .. }
        | NotMember::ListedAs(_)
        | NotMember::Left
        | NotMember::NoMandate
        | NotMember::Forked
        | NotMember::NotLinked
        | NotMember::BeyondInvite
        | NotMember::NoUsesLeft
        | NotMember::UsesUnknown
        | NotMember::NotApproved
        | NotMember::Denied => false,
    }
}

#[test]
fn every_reason_cuts_what_is_open_but_those_that_run_out_by_themselves() {
    let (name, pinned, presented) = (node("web-7"), world::key("k1"), world::key("k9"));
    let of_another = NotMember::NameOfAnother { name: name.clone(), published: pinned, presented };
    let all = [
        NotMember::NoHead,
        NotMember::Revoked,
        NotMember::NameEnded(name.clone()),
        NotMember::TooOld,
        NotMember::NotShown,
        NotMember::NoAdmission,
        NotMember::OtherEvidence,
        NotMember::OtherAdmission,
        of_another,
        NotMember::PinnedToAnother { name: name.clone(), pinned, presented },
        NotMember::ListedAs(name),
        NotMember::Left,
        NotMember::NoMandate,
        NotMember::Forked,
        NotMember::NotLinked,
        NotMember::Invite(over()),
        NotMember::Invite(NotCounted::Revoked),
        NotMember::Invite(NotCounted::NotSigned { found: 0, needed: 1 }),
        NotMember::Word(over()),
        NotMember::Word(NotCounted::NoEnd),
        NotMember::BeyondInvite,
        NotMember::NoUsesLeft,
        NotMember::UsesUnknown,
        NotMember::NotApproved,
        NotMember::ApprovalOver { until: NOW },
        NotMember::Denied,
    ];
    for why in all {
        assert_eq!(!NotAPeer::from(why.clone()).cuts(), stays_open(&why), "{why}");
    }
    assert!(!NotAPeer::Stale.cuts());
    assert!(!NotAPeer::TooOld { found: 1, known: 2 }.cuts());
}

#[test]
fn what_a_peer_opened_ends_by_what_operators_take_back_and_by_nothing_that_runs_out() {
    let met = |harbor: &Harbor| {
        harbor.meet("web-7", "k9", &harbor.shown("web-7", Some(harbor.admitted("web-7", "web-*", "ann")))).unwrap()
    };
    let cases: [(&str, Change, bool); 7] = [
        ("another head: nobody is shown by the old one any more", |_| {}, true),
        ("the invite is over", |head| head.issued_at = day(100), true),
        (
            "the invite is over and was revoked",
            |head| {
                head.issued_at = day(100);
                head.revocations.invites.extend([super::world::invite_id("i")]);
            },
            false,
        ),
        ("the invite was revoked", |head| head.revocations.invites.extend([super::world::invite_id("i")]), false),
        ("the gateway's voice was closed", |head| head.revocations.voices.extend([ed("g1").public()]), false),
        ("the key was revoked", |head| head.revocations.node_keys.extend([world::key("k9")]), false),
        ("the mandate is for other names", |head| head.mandates[0].names = vec!["db-*".parse().unwrap()], false),
    ];
    for (case, change, stays) in cases {
        let mut harbor = Harbor::new();
        let peer = met(&harbor);
        harbor.publish(change);
        let (endures, _) = harbor.leaves(&peer, NOW);
        assert_eq!(endures.is_ok(), stays, "{case}: {endures:?}");
    }
    // Time alone: nothing new by an SVID that is over, and what is open stays.
    let harbor = Harbor::new();
    assert_eq!(harbor.leaves(&met(&harbor), NOW + Seconds::DAY), (Ok(()), false));
    // By the word of signers who were replaced it was let in: it comes again by the new ones' map.
    let mut harbor = Harbor::new();
    let (peer, listed) = (met(&harbor), harbor.meet("alpha", "k3", &harbor.shown("alpha", None)).unwrap());
    harbor.replace_signer();
    let not_signed = NotCounted::NotSigned { found: 0, needed: 1 };
    assert_eq!(harbor.leaves(&peer, NOW).0, Err(NotMember::Invite(not_signed).into()));
    assert_eq!(harbor.leaves(&listed, NOW), (Ok(()), true));
    harbor.publish(|head| head.recent.clear());
    assert_eq!(harbor.leaves(&listed, NOW), (Ok(()), false));
}
