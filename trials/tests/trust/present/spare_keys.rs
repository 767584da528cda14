//! A root was stolen: the mandate names the spare key, and the gateway goes over to it, wherever it is killed.

use identity::bundle::Identity;
use identity::certificate;
use identity::id::KeyId;
use identity::text::Bytes;
use trials::client::joiner::check_in;
use trials::client::stranger::Dial;
use trials::place::{Place, mode, openssl, until};
use wire::permit::Ask;

use super::{NewRoot, Turner, own_of, svid_of};

const FILES: [&str; 3] = ["identity-issuer.key", "identity-issuer.pem", "identity-issuer.spare.key"];

fn issuer_of(place: &Place, node: &str) -> KeyId {
    certificate::read(&svid_of(place, node)[1]).unwrap().key
}

fn key_in(request: &Bytes) -> KeyId {
    certificate::read_request(&request.0).unwrap().id
}

/// The public key in a file of the gateway's, as openssl sees it.
fn public(place: &Place, file: &str) -> String {
    openssl(&place.org().join("gateway"), &["pkey", "-in", file, "-pubout"])
}

#[test]
fn a_gateway_goes_over_to_its_spare_key_when_the_mandate_names_it() {
    let place = Place::founded(&["--node", "laptop"]);
    let gateway = place.serve();
    let folder = place.org().join("gateway");
    let turner = Turner::at(&place);
    place.joined("before");
    let own = own_of(&place, "before");
    let mut open = Dial::to(place.port).with(&own).line();
    assert_eq!(open.code(Ask::CheckIn, &check_in()), "ok");

    let said = turner.issuers(place.port).remove(0);
    let again = turner.issuers(place.port).remove(0).spare_identity;
    assert_eq!(key_in(&again), key_in(&said.spare_identity), "it is drawn once");
    assert_eq!(mode(&folder.join("identity-issuer.spare.key")), 0o600);
    let former: Vec<Vec<u8>> = FILES.iter().map(|file| std::fs::read(folder.join(file)).unwrap()).collect();
    let spare = public(&place, "identity-issuer.spare.key");
    let root = NewRoot::<Identity>::make();
    let (key, issuer) = turner.certify_spare(&root, &said.spare_identity);
    turner.replace(&root, std::slice::from_ref(&issuer), |head| head.mandates[0].identity_issuer = key);

    // Killed before anything was written down: the mandate says which of the two keys it is.
    assert!(open.ask(Ask::CheckIn, &check_in()).is_err(), "who leads only to the stolen root is cut");
    gateway.kill();
    for (file, bytes) in FILES.iter().zip(&former) {
        std::fs::write(folder.join(file), bytes).unwrap();
    }
    let gateway = place.serve();
    place.joined("after");
    assert_eq!(issuer_of(&place, "after"), key);
    assert_eq!(svid_of(&place, "after")[1..], *std::slice::from_ref(&issuer));
    until("the files say so, too", || public(&place, "identity-issuer.key") == spare);
    until("another lies ready", || folder.join("identity-issuer.spare.key").exists());
    let next = turner.issuers(place.port).remove(0).spare_identity;
    assert_ne!(key_in(&next), key);
    gateway.kill();

    // Killed between two steps of it.
    let settled: Vec<Vec<u8>> = FILES.iter().map(|file| std::fs::read(folder.join(file)).unwrap()).collect();
    let both = [certificate::to_pem(std::slice::from_ref(&issuer)).into_bytes(), former[1].clone()].concat();
    let states = [
        ("both certificates", [former[0].clone(), both.clone(), former[2].clone()]),
        ("the key", [former[2].clone(), both, former[2].clone()]),
        ("its certificate alone", [former[2].clone(), settled[1].clone(), former[2].clone()]),
    ];
    for (nth, (written, files)) in states.into_iter().enumerate() {
        for (file, bytes) in FILES.iter().zip(files) {
            std::fs::write(folder.join(file), bytes).unwrap();
        }
        let gateway = place.serve();
        let node = format!("then-{nth}");
        place.joined(&node);
        assert_eq!(issuer_of(&place, &node), key, "{written}");
        until("the spare is another one", || {
            folder.join("identity-issuer.spare.key").exists() && public(&place, "identity-issuer.spare.key") != spare
        });
        assert_eq!(public(&place, "identity-issuer.key"), spare, "{written}");
        gateway.kill();
    }
}

#[test]
fn a_key_that_no_mandate_names_issues_nothing_and_the_gateway_says_so() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let turner = Turner::at(&place);
    let code = place.code(&["--name", "one"]);
    turner.publish_head(|head| head.mandates[0].identity_issuer = KeyId([7; 32]));
    trials::place::refused(&place.join("one", &code), "mandate is not in force");
    let told = place.freehold(&["doctor"]);
    let words = trials::place::stdout(&told);
    assert!(words.contains("names another identity key") && told.status.code() == Some(1), "{words}");
}
