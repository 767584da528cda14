//! Proofs that were stolen, moved or half made: a proof is good once, on one connection, for one key and one invite.

use identity::key::Sign;
use trials::client::joiner::{Ground, Joiner, prove};
use trials::client::stranger::{Dial, Line};
use wire::enroll::EnrollRequest;
use wire::permit::Ask;

use super::Scene;

/// What it is, how it ends, and what it sends on a line with an open challenge.
type Attack<'a> = (&'a str, &'a str, &'a dyn Fn(&mut Line, Ground) -> EnrollRequest);

/// Every attack of a table runs on a line of its own, with a challenge, and changes nothing.
fn check(scene: &Scene, attacks: &[Attack<'_>]) {
    let before = scene.truth();
    for (case, expected, attack) in attacks {
        let mut line = Dial::to(scene.port()).line();
        let ground = Ground::on(&mut line);
        let request = attack(&mut line, ground);
        assert_eq!(line.code(Ask::Enroll, &request), *expected, "{case}");
    }
    assert_eq!(scene.truth(), before);
}

#[test]
fn a_proof_is_worth_nothing_on_another_connection_or_a_second_time() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let before = scene.truth();

    // Overheard in full, before it was used.
    let mut victim = Dial::to(scene.port()).line();
    let ground = Ground::on(&mut victim);
    let overheard = joiner.request(ground);
    let mut thief = Dial::to(scene.port()).line();
    assert_eq!(thief.code(Ask::Enroll, &overheard), "no_challenge");
    Ground::on(&mut thief);
    assert_eq!(thief.code(Ask::Enroll, &overheard), "bad_proof", "another challenge, another connection");
    assert_eq!(thief.code(Ask::Enroll, &overheard), "no_challenge", "a challenge is used up by a failure too");
    assert_eq!(scene.truth(), before);

    // The victim's own connection takes it once.
    assert_eq!(victim.code(Ask::Enroll, &overheard), "ok");
    let after = scene.truth();
    assert_eq!(victim.code(Ask::Enroll, &overheard), "no_challenge");
    Ground::on(&mut victim);
    assert_eq!(victim.code(Ask::Enroll, &overheard), "bad_proof", "a new challenge on the same connection");
    assert_eq!(scene.truth(), after);
    scene.audit();
}

#[test]
fn a_challenge_belongs_to_the_connection_that_asked_for_it() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let mut elsewhere = Dial::to(scene.port()).line();
    let theirs = Ground::on(&mut elsewhere);
    check(
        &scene,
        &[
            ("another connection's challenge", "bad_proof", &|line, ground| {
                joiner.request(Ground { challenge: theirs.challenge, exporter: line.exporter, ..ground })
            }),
            ("another connection's exporter", "bad_proof", &|_, ground| {
                joiner.request(Ground { exporter: theirs.exporter, ..ground })
            }),
            ("a challenge that was given up for a second one", "bad_proof", &|line, ground| {
                Ground::on(line);
                joiner.request(ground)
            }),
        ],
    );
    let mut line = Dial::to(scene.port()).line();
    let made_up = Ground { challenge: [0; 32], exporter: line.exporter, not_after: theirs.not_after };
    assert_eq!(line.code(Ask::Enroll, &joiner.request(made_up)), "no_challenge", "no challenge at all");
}

#[test]
fn a_proof_needs_both_keys_over_both_things() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let other = Joiner::new(&scene.place.code(&[]), "web-1");
    let (invite, node): (&dyn Sign, &dyn Sign) = (&joiner.invite_key(), &joiner.node_key);
    let (wrong_invite, wrong_node): (&dyn Sign, &dyn Sign) = (&other.invite_key(), &other.node_key);
    let with = |claim: &[&dyn Sign], hands: (&dyn Sign, &dyn Sign), ground: Ground| {
        prove(joiner.claim_by(claim), joiner.svid(ground.not_after), ground, hands)
    };
    check(
        &scene,
        &[
            ("claim by the invite only", "bad_proof", &|_, ground| with(&[invite], (invite, node), ground)),
            ("claim by the node only", "bad_proof", &|_, ground| with(&[node], (invite, node), ground)),
            ("claim by nobody", "bad_proof", &|_, ground| with(&[], (invite, node), ground)),
            ("claim by another invite", "bad_proof", &|_, ground| with(&[wrong_invite, node], (invite, node), ground)),
            ("transcript by the invite only", "bad_proof", &|_, ground| {
                with(&[invite, node], (invite, invite), ground)
            }),
            ("transcript by the node only", "bad_proof", &|_, ground| with(&[invite, node], (node, node), ground)),
            ("transcript by another invite", "bad_proof", &|_, ground| {
                with(&[invite, node], (wrong_invite, node), ground)
            }),
            ("transcript by another node", "bad_proof", &|_, ground| {
                with(&[invite, node], (invite, wrong_node), ground)
            }),
            ("no signatures", "bad_proof", &|_, ground| {
                let mut request = joiner.request(ground);
                (request.by_invite, request.by_node.0) = (None, Vec::new());
                request
            }),
            ("a short nonce", "bad_proof", &|_, ground| {
                let mut request = joiner.request(ground);
                request.nonce.0.truncate(31);
                request
            }),
        ],
    );
}

#[test]
fn a_proof_holds_for_one_machine_one_invite_and_one_request() {
    let scene = Scene::new();
    let mine = Joiner::new(&scene.place.code(&["--name", "web-*"]), "web-1");
    let theirs = Joiner::new(&scene.place.code(&["--name", "web-*"]), "web-2");
    check(
        &scene,
        &[
            ("another machine's claim under my proof", "bad_proof", &|_, ground| EnrollRequest {
                claim: theirs.signed_claim(),
                ..mine.request(ground)
            }),
            ("my claim, the node key of another", "bad_proof", &|_, ground| {
                let hands: (&dyn Sign, &dyn Sign) = (&mine.invite_key(), &theirs.node_key);
                prove(mine.signed_claim(), theirs.svid(ground.not_after), ground, hands)
            }),
            ("the secret of another invite", "bad_proof", &|_, ground| {
                let hands: (&dyn Sign, &dyn Sign) = (&theirs.invite_key(), &mine.node_key);
                let claim = mine.claim_by(&[&theirs.invite_key(), &mine.node_key]);
                prove(claim, mine.svid(ground.not_after), ground, hands)
            }),
            ("another request under my proof", "bad_proof", &|_, ground| {
                let mut request = mine.request(ground);
                request.svid.request = theirs.svid(ground.not_after).request;
                request
            }),
            ("another binding under my proof", "bad_proof", &|_, ground| {
                let mut request = mine.request(ground);
                request.svid.binding = theirs.svid(ground.not_after).binding;
                request
            }),
            ("a name that the invite does not give", "name_not_allowed", &|_, ground| {
                Joiner::new(&mine.code.encode(), "db-1").request(ground)
            }),
        ],
    );
    // What was refused can still be used: nothing was spent.
    Joiner::join(&mine.code.encode(), "web-1", scene.port());
    Joiner::join(&theirs.code.encode(), "web-2", scene.port());
    scene.audit();
}

#[test]
fn no_header_moves_a_caller_into_another_network() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&["--network", "10.0.0.0/8"]), "web-1");
    let before = scene.truth();
    for header in ["x-forwarded-for: 10.0.0.1", "forwarded: for=10.0.0.1", "x-real-ip: 10.0.0.1", "via: 10.0.0.1"] {
        let mut line = Dial::to(scene.port()).line();
        let request = serde_json::to_vec(&joiner.request(Ground::on(&mut line))).unwrap();
        let reply = line.request_with("POST", Ask::Enroll.path(), &format!("{header}\r\n"), &request).unwrap();
        assert_eq!(reply.code(), "network_not_allowed", "{header}");
    }
    assert_eq!(scene.truth(), before);
}
