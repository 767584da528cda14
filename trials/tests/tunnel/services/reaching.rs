//! Found, served, joined, published: then a page is read by name, by whoever may.

use std::net::TcpStream;
use std::process::Stdio;

use trials::place::{Place, Running, json, output, stderr, stdout, succeeded, until};

use super::{Harbor, PAGE, Wiki, curl_by};

#[test]
fn a_page_is_read_by_name_from_another_node_and_by_nobody_without_the_role() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let page = harbor.curl("ann", "http://wiki.harbor.internal/");
    assert_eq!((stdout(&page).as_str(), stderr(&page).as_str()), (PAGE, ""));
    let page = harbor.curl("ann", "http://WIKI.alpha.harbor.internal./");
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
    let refused = harbor.curl("bob", "http://wiki.harbor.internal/");
    assert_eq!((stdout(&refused).as_str(), refused.status.success()), ("", false));
    let other = harbor.curl("ann", "http://wiki.harbor.example/");
    assert!(!other.status.success());
    // Seen by both ends, and by no more than they need.
    until("the stream is written down", || harbor.log("alpha").iter().any(|line| line["event"] == "closed"));
    let opened = harbor.log("alpha").into_iter().find(|line| line["event"] == "opened").unwrap();
    assert_eq!(
        (&opened["who"], &opened["node"], &opened["way"]),
        (&"spiffe://harbor/user/ann".into(), &"beta".into(), &"in".into())
    );
    let now = &harbor.tunnel("beta")["now"];
    assert_eq!(now["peers"][0]["node"], "alpha", "{now}");
    let counted = now["services"].as_array().unwrap().iter().find(|row| row["principal"] == "spiffe://harbor/user/ann");
    assert_eq!(counted.unwrap()["streams"], 2, "{now}");
    let told = place.node("beta", &["top", "--once"], "");
    succeeded(&told);
    assert!(stdout(&told).contains("spiffe://harbor/user/ann"), "{}", stdout(&told));
    // Nothing is wrong, and every way was tried.
    let doctor = json(&place.node("beta", &["doctor", "wiki", "--json"], ""));
    let findings = doctor["orgs"][0]["findings"].as_array().unwrap();
    for subject in ["clock", "svid", "head", "gateway", "name", "table", "tunnel", "peer", "service"] {
        assert!(findings.iter().any(|finding| finding["subject"] == subject && finding["mark"] == "ok"), "{doctor}");
    }
    let here = stdout(&place.node("alpha", &["doctor", "wiki"], ""));
    assert!(here.contains("`wiki` accepts connections"), "{here}");
    let unknown = place.node("beta", &["doctor", "wikki"], "");
    assert!(!unknown.status.success() && stdout(&unknown).contains("what may be called: wiki"), "{}", stdout(&unknown));
    assert!(stdout(&unknown).contains("freehold access --matrix"), "{}", stdout(&unknown));
}

#[test]
fn a_doctor_where_it_is_called_from_says_what_is_wrong_where_it_is() {
    let mut harbor = Harbor::new();
    let doctor = |place: &Place| {
        let told = place.node("beta", &["doctor", "wiki"], "");
        (told.status.code(), stdout(&told))
    };
    until("it is well", || doctor(&harbor.scene.place).0 == Some(0));
    let (_, told) = doctor(&harbor.scene.place);
    assert!(told.contains("`wiki` on `alpha` took a call of spiffe://harbor/user/ann"), "{told}");
    // The wiki ends with the next connection that nobody keeps.
    let wiki = std::mem::replace(&mut harbor.wiki, Wiki::new());
    let at = wiki.at;
    drop(wiki);
    until("the wiki is down", || TcpStream::connect(at).is_err());
    let (code, told) = doctor(&harbor.scene.place);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("`alpha` declined it: the service does not accept connections there"), "{told}");
    assert!(told.contains("on `alpha`: freehold-node doctor wiki"), "{told}");
    let ways = |told: &str, mark| told.lines().filter(|line| line.starts_with(mark) && line.contains(" peer ")).count();
    assert_eq!(ways(&told, "ok"), 2, "{told}");
    harbor.alpha.kill();
    let (code, told) = doctor(&harbor.scene.place);
    assert_eq!((code, ways(&told, "WRONG")), (Some(1), 2), "{told}");
    assert!(told.contains("no way leads to `wiki`") && told.contains("does the agent of `alpha` run?"), "{told}");
}

#[test]
fn the_machine_of_the_gateway_is_a_node_as_any_other() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let port = stdout(&place.freehold(&["here", "port", "socks", "--user", "ann"]));
    let page = output(curl_by(&port, "http://wiki.harbor.internal/"));
    assert_eq!((stdout(&page).as_str(), stderr(&page).as_str()), (PAGE, ""));
    assert_eq!(place.facts(&["here", "status"])["tunnel"]["now"]["peers"][0]["node"], "alpha");
    let top = place.freehold(&["here", "top", "--once"]);
    assert!(stdout(&top).contains("spiffe://harbor/user/ann"), "{}", stdout(&top));
    let doctor = place.freehold(&["here", "doctor", "wiki"]);
    assert!(stdout(&doctor).contains("`wiki.harbor.internal` is a service at `alpha`"), "{}", stdout(&doctor));
}

#[test]
fn a_role_that_is_taken_back_ends_what_was_open() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let waiting = harbor.curl_command("ann", "http://wiki.harbor.internal/slow").stderr(Stdio::null()).spawn().unwrap();
    let open = harbor.wiki.kept.recv().unwrap();
    // The service can ask who that is.
    let (far, near) = (open.peer_addr().unwrap().to_string(), open.local_addr().unwrap().to_string());
    for ends in [&[&*far, &*near][..], &[&*far][..]] {
        let caller = json(&place.node("alpha", &[&["caller"], ends, &["--json"]].concat(), ""));
        assert_eq!((&caller["principal"], &caller["node"]), (&"spiffe://harbor/user/ann".into(), &"beta".into()));
        assert_eq!((&caller["service"], &caller["at"]), (&"wiki".into(), &near.clone().into()));
    }
    // Whoever names one end is told what the answer is about.
    let told = stdout(&place.node("alpha", &["caller", &far], ""));
    assert!(told.starts_with(&format!("`wiki` at {near} is called by ")) && told.contains("name both ends"), "{told}");
    for ends in [&["127.0.0.1:1"][..], &[&*far, "127.0.0.1:1"][..]] {
        assert!(!place.node("alpha", &[&["caller"], ends].concat(), "").status.success(), "{ends:?}");
    }
    harbor.publish("nothing");
    assert_ne!(Running(waiting).end().0, Some(0));
    until("the cut is written down", || harbor.log("alpha").iter().any(|line| line["event"] == "cut"));
    let cut = harbor.log("alpha").into_iter().find(|line| line["event"] == "cut").unwrap();
    assert_eq!((&cut["who"], &cut["head"]), (&"spiffe://harbor/user/ann".into(), &3.into()));
    assert!(!harbor.curl("ann", "http://wiki.harbor.internal/").status.success());
    harbor.publish("pages");
    let page = harbor.curl("ann", "http://wiki.harbor.internal/");
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
}
