//! What stands in a line, and what does not.

use identity::id::{Fingerprint, InviteId, OrgId};
use identity::signers::SignersRef;
use org::invite::code::{InviteCode, InviteSecret, Ticket};

use super::*;

fn kit() -> Kit {
    let agent = org::release::Agent {
        os: "linux".parse().unwrap(),
        arch: "x86_64".parse().unwrap(),
        version: "0.1.0".parse().unwrap(),
        size: 1,
        sha256: Digest([4; 32]),
    };
    let release = Release::next(None, vec![agent], "2026-11-15T12:00:00Z".parse().unwrap());
    let [script, powershell, root] = [1, 2, 3].map(|byte| Digest([byte; 32]));
    Kit { script, powershell, root, outside: BTreeMap::new(), release }
}

fn addresses(texts: &[&str]) -> Vec<Address> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn code(gateways: &[Address]) -> InviteCode {
    InviteCode {
        org: OrgId([1; 32]),
        name: "harbor".parse().unwrap(),
        signers_floor: SignersRef { version: 1, id: Digest([1; 32]) },
        head_floor: 7,
        endpoint_root: Fingerprint([2; 32]),
        gateways: gateways.to_vec(),
        ticket: Ticket::Token { invite: InviteId([3; 16]), secret: InviteSecret::new([4; 16]) },
    }
}

/// The line, and the script that it fetches first.
fn drawn(kit: &Kit, gateways: &[Address], name: Option<&str>) -> (String, String) {
    let whole = code(gateways);
    let (start, script) = Start::draw(kit, &whole).unwrap();
    let code = whole.encode();
    let line = JoinLine { code: &code, gateways, kit: Some(kit), start: Some(&start), name };
    (line.shell().to_string(), script)
}

#[test]
fn a_line_is_shorter_than_450_letters() {
    for host in ["127.0.0.1:17443", "gateway.example.org:7443", "[fd00:1234:5678::1]:7443"] {
        for name in [None, Some("web-1")] {
            let line = drawn(&kit(), &addresses(&[host]), name).0;
            println!("{host}: {} letters", line.len());
            assert!(line.len() < 450, "{}: {line}", line.len());
        }
    }
}

#[test]
fn a_line_names_a_script_by_its_hash_and_that_names_three_and_every_gateway() {
    let (kit, gateways) = (kit(), addresses(&["gw.example:7443", "[::1]:7443"]));
    let (told, script) = drawn(&kit, &gateways, Some("web-1"));
    let digest = Digest::of(script.as_bytes());
    assert!(told.starts_with(&format!("(s= h={digest};_f(){{ ")), "{told}");
    assert!(told.contains(";_f gw.example:7443||_f '[::1]:7443'||{ s="), "{told}");
    let (public, secret) = code(&gateways).halves();
    assert!(told.ends_with(&format!(";echo {}|sh -c \"$s\" - --name web-1)", &*secret)), "{told}");
    assert!(script.contains(&format!("echo \"{public}$secret\" | (")) && !script.contains(&*secret), "{script}");
    let (root, list) = (kit.root, kit.release.list);
    let runs = format!(
        "\nsh join.sh --gateway 'https://gw.example:7443' --gateway 'https://[::1]:7443' --root {root} --agents {list} \
         ${{1+\"$@\"}}\n)"
    );
    assert!(script.contains(&format!("\nh={}\n", kit.script)) && script.ends_with(&runs), "{script}");
    // Whoever meets another script, or none, hears what may answer there.
    assert!(script.contains("somebody is in the middle") && script.contains("something else answers there"));
    assert!(!told.contains('\n') && script.len() < SCRIPT_BYTES);
    let line = JoinLine { code: "fh1_code", gateways: &gateways, kit: Some(&kit), start: None, name: None };
    let windows = line.powershell().unwrap();
    assert!(windows.contains("somebody is in the middle"), "{}", &*windows);
    assert!(windows.starts_with("'fh1_code' | & {") && windows.contains(&kit.powershell.to_string()));
    assert!(kit.files().collect::<Vec<_>>().contains(&Digest([4; 32])), "the agent itself is kept, too");
}

#[test]
fn whoever_joins_by_the_same_gateways_fetches_the_same_script() {
    let gateways = addresses(&["gw.example:7443"]);
    let with = |byte| {
        let ticket = Ticket::Token { invite: InviteId([byte; 16]), secret: InviteSecret::new([byte; 16]) };
        Start::draw(&kit(), &InviteCode { ticket, ..code(&gateways) }).unwrap().0.digest
    };
    assert_eq!(with(1), with(2));
}

#[test]
fn a_line_goes_through_a_proxy_to_who_is_there_and_to_nobody_else() {
    let onion = "socks5://127.0.0.1:9050/abcdefghijklmnop.onion:7443";
    let (line, script) = drawn(&kit(), &addresses(&[onion]), None);
    assert!(line.contains(";_f abcdefghijklmnop.onion:7443||{ s="), "{line}");
    assert!(line.contains(" --socks5-hostname 127.0.0.1:9050 $u||echo @)|dd ") && !line.contains("wget"), "{line}");
    assert!(script.contains(&format!("sh join.sh --gateway '{onion}' --root ")), "{script}");
    let (line, _) = drawn(&kit(), &addresses(&[onion, "gw.example:7443"]), None);
    let (direct, proxied) = line.split_once("||{ _f()").unwrap();
    assert!(direct.contains(";_f gw.example:7443") && proxied.contains("--socks5-hostname"), "{line}");
}

#[test]
fn without_a_release_the_agent_must_be_there() {
    let gateways = addresses(&["gw.example:7443"]);
    let line = JoinLine { code: "fh1_code", gateways: &gateways, kit: None, start: None, name: None };
    assert_eq!(*line.shell(), "echo fh1_code | freehold-node join");
    assert_eq!((line.installs(), line.powershell()), (false, None));
    assert_eq!(*line.env(), "FREEHOLD_INVITE=fh1_code\n");
    let user_data = line.cloud_init();
    assert!(user_data.starts_with("#cloud-config\n") && user_data.contains("freehold-node join"));
}

#[test]
fn a_carrier_is_believed_by_its_own_root_for_its_own_name() {
    let mut kit = kit();
    let (own, outside, list) = (kit.root, Digest([9; 32]), kit.release.list);
    let gateways = addresses(&["wss://gw.example", "wss://other.example:8443/x"]);
    let bare = JoinLine { code: "c", gateways: &gateways, kit: Some(&kit), start: None, name: None };
    assert_eq!(*bare.shell(), "echo c | freehold-node join");
    assert!(Start::draw(&kit, &code(&gateways)).is_none());
    kit.outside.insert("gw.example".parse().unwrap(), outside);
    let (told, script) = drawn(&kit, &gateways, None);
    let runs = format!("sh join.sh --gateway 'https://gw.example:443' --root {outside} --agents {list} ");
    assert!(script.contains(&runs) && !script.contains("other.example") && !told.contains("other.example"), "{script}");
    // Beside one that answers itself: to each its own.
    let both = addresses(&["gw.example:7443", "[::1]:7443", "wss://gw.example"]);
    let (_, script) = drawn(&kit, &both, None);
    let runs = format!(
        "sh join.sh --gateway 'https://gw.example:7443' --gateway 'https://[::1]:7443' --root {own} --gateway \
         'https://gw.example:443' --root {outside} --agents {list} "
    );
    assert!(script.contains(&runs), "{script}");
    let line = JoinLine { code: "c", gateways: &both, kit: Some(&kit), start: None, name: None };
    let roots = format!("{own},{own},{outside}");
    assert!(line.powershell().unwrap().contains(&format!("-Root '{roots}' -Agents {list}")));
    assert!(line.env().contains(&format!("\nFREEHOLD_ROOT_SHA256={roots}\n")));
    assert!(kit.files().any(|digest| digest == outside), "a gateway keeps it while the invite lives");
}
