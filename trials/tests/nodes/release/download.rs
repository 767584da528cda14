//! A stranger downloads with a real curl: whole, in part, what is not there, many at once, and too slowly.

use identity::id::Digest;
use serde_json::Value;
use trials::client::stranger::Dial;
use trials::place::{Place, json, output, succeeded, until};

use super::{Curl, agent, files, hash_of, mach_o};

#[test]
fn a_stranger_gets_a_file_whole_or_from_a_place_on() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    succeeded(&place.freehold(&["release", "add", &agent()]));
    let (digest, whole) = (hash_of(&agent()), std::fs::read(agent()).unwrap());
    let out = place.path("out");
    assert_eq!(Curl::new(&place, &digest).get(&out), ("200".to_owned(), whole.clone()));
    // As curl goes on after it was cut off.
    std::fs::write(&out, &whole[..whole.len() / 3]).unwrap();
    let (status, got) = Curl::new(&place, &digest).with(&["-C", "-"]).get(&out);
    assert_eq!((status.as_str(), got == whole), ("206", true));
    let from = format!("{}-", whole.len() - 5);
    let (status, got) = Curl::new(&place, &digest).with(&["-r", &from]).get(&out);
    assert_eq!((status.as_str(), &got[..]), ("206", &whole[whole.len() - 5..]));
    let beyond = format!("{}-", whole.len());
    assert_eq!(Curl::new(&place, &digest).with(&["-r", &beyond]).get(&out).0, "416");
    // What is not understood asks for the whole.
    let (status, got) = Curl::new(&place, &digest).with(&["-r", "1-2,5-6"]).get(&out);
    assert_eq!((status.as_str(), got == whole), ("200", true));
}

#[test]
fn the_endpoint_root_is_there_from_the_start_and_is_enough_for_curl() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let root = std::fs::read(place.org().join("gateway/endpoint-root.pem")).unwrap();
    let out = place.path("root.pem");
    assert_eq!(Curl::new(&place, &Digest::of(&root).to_string()).get(&out), ("200".to_owned(), root));
    let mut curl = std::process::Command::new("curl");
    curl.args(["-fsS", "--cacert"]).arg(&out).arg(format!("https://{}/v1/head", place.address()));
    assert!(json(&output(curl)).is_object());
}

#[test]
fn what_is_not_there_and_what_is_no_file_is_not_found() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let out = place.path("out");
    let nothing = Digest::of(b"nothing").to_string();
    let root = std::fs::read_dir(files(&place)).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    let bad = ["", "..", "../ledger.db", "%2e%2e/ledger.db", "ledger.db", &root[1..], &root.to_uppercase(), &nothing];
    for name in bad.into_iter().chain([format!("{root}/").as_str(), &format!("{root}0"), &format!("{root}.part")]) {
        let (status, got) = Curl::new(&place, name).with(&["--path-as-is"]).get(&out);
        let told: Value = serde_json::from_slice(&got).unwrap();
        assert_eq!((status.as_str(), &told["code"]), ("404", &Value::from("not_found")), "{name}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(Curl::new(&place, &root).with(&["-X", method]).get(&out).0, "404", "{method}");
    }
}

#[test]
fn many_download_at_once_and_the_gateway_stays_small() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    // Thirty of them whole in memory would be more than a gigabyte.
    let large = place.path("large");
    let mut bytes = [mach_o(), b"freehold-node-version:0.1.0;".to_vec()].concat();
    bytes.resize(48 << 20, 7);
    std::fs::write(&large, &bytes).unwrap();
    succeeded(&place.freehold(&["release", "add", &large.to_string_lossy()]));
    let digest = Digest::of(&bytes).to_string();
    let children: Vec<_> = (0..30)
        .map(|n| {
            let out = place.path(&format!("out-{n}"));
            (Curl::new(&place, &digest).with(&["--limit-rate", "60M"]).command(&out).spawn().unwrap(), out)
        })
        .collect();
    for (mut child, out) in children {
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::metadata(&out).unwrap().len(), bytes.len() as u64);
        assert_eq!(hash_of(&out.to_string_lossy()), digest);
        std::fs::remove_file(out).unwrap();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().split(' ').next().unwrap();
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < 200 << 10, "the gateway took {peak} KiB");
}

#[test]
fn one_address_has_its_share_of_downloads_and_others_theirs() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let large = place.path("large");
    let mut bytes = [mach_o(), b"freehold-node-version:0.1.0;".to_vec()].concat();
    bytes.resize(24 << 20, 7);
    std::fs::write(&large, &bytes).unwrap();
    succeeded(&place.freehold(&["release", "add", &large.to_string_lossy()]));
    let path = format!("/v1/file/{}", Digest::of(&bytes));
    let request = format!("GET {path} HTTP/1.1\r\nhost: gateway\r\n\r\n");
    // Asked for, and never read.
    let ask = |_| {
        let mut line = Dial::to(place.port).line();
        line.send(request.as_bytes()).unwrap();
        line
    };
    let held: Vec<_> = (0..128).map(ask).collect();
    let asked = || {
        let nothing = format!("/v1/file/{}", Digest::of(b"nothing"));
        Dial::to(place.port).line().request("GET", &nothing, b"").unwrap().code()
    };
    until("the address has its share", || asked() == "busy");
    // From another address.
    let other = Curl::new(&place, &Digest::of(&bytes).to_string());
    assert_eq!(other.get(&place.path("out")).0, "200");
    drop(held);
    until("the places are free again", || asked() == "not_found");
}
