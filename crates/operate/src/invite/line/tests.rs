//! What stands in a line, and what does not.

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

#[test]
fn a_line_names_three_hashes_and_every_gateway() {
    let (kit, gateways) = (kit(), addresses(&["gw.example:7443", "[::1]:7443"]));
    let line = JoinLine { code: "fh1_code", gateways: &gateways, kit: Some(&kit), name: Some("web-1") };
    let told = line.shell();
    let (script, root, list) = (kit.script, kit.root, kit.release.list);
    assert!(told.starts_with("echo fh1_code | (set -e; d=$(mktemp -d); "), "{}", &*told);
    assert!(told.contains(&format!("h={script}; for u in https://gw.example:7443 https://[::1]:7443; do")));
    let runs = format!(
        "; sh join.sh --gateway https://gw.example:7443 --gateway https://[::1]:7443 --root {root} --agents {list} \
         --name web-1)"
    );
    assert!(told.ends_with(&runs), "{}", &*told);
    assert_eq!(told.matches("fh1_code").count(), 1);
    // Whoever meets another script, or none, hears what may answer there.
    assert!(told.contains("somebody is in the middle") && told.contains("something else answers there"));
    assert!(!told.contains('\n'));
    let windows = line.powershell().unwrap();
    assert!(windows.contains("somebody is in the middle"), "{}", &*windows);
    assert!(windows.starts_with("'fh1_code' | & {") && windows.contains(&kit.powershell.to_string()));
    assert!(kit.files().collect::<Vec<_>>().contains(&Digest([4; 32])), "the agent itself is kept, too");
}

#[test]
fn without_a_release_the_agent_must_be_there() {
    let gateways = addresses(&["gw.example:7443"]);
    let line = JoinLine { code: "fh1_code", gateways: &gateways, kit: None, name: None };
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
    let gateways = addresses(&["wss://gw.example", "wss://other.example:8443/x", "socks5://127.0.0.1:9/gw.example:1"]);
    let line = |kit: &Kit| JoinLine { code: "c", gateways: &gateways, kit: Some(kit), name: None }.shell().to_string();
    assert_eq!(line(&kit), "echo c | freehold-node join");
    kit.outside.insert("gw.example".parse().unwrap(), outside);
    let told = line(&kit);
    let runs = format!("sh join.sh --gateway https://gw.example:443 --root {outside} --agents {list})");
    assert!(told.ends_with(&runs) && !told.contains("other.example") && !told.contains(":1 "), "{told}");
    // Beside one that answers itself: to each its own.
    let both = addresses(&["gw.example:7443", "[::1]:7443", "wss://gw.example"]);
    let line = JoinLine { code: "c", gateways: &both, kit: Some(&kit), name: None };
    let runs = format!(
        "sh join.sh --gateway https://gw.example:7443 --gateway https://[::1]:7443 --root {own} --gateway \
         https://gw.example:443 --root {outside} --agents {list})"
    );
    assert!(line.shell().ends_with(&runs), "{}", &*line.shell());
    let roots = format!("{own},{own},{outside}");
    assert!(line.powershell().unwrap().contains(&format!("-Root '{roots}' -Agents {list}")));
    assert!(line.env().contains(&format!("\nFREEHOLD_ROOT_SHA256={roots}\n")));
    assert!(kit.files().any(|digest| digest == outside), "a gateway keeps it while the invite lives");
}
