//! The fleet: whatever is written in its files ends in a fleet or in complaints, never in a panic, and within bounds.

use manifest::example::Setting;
use manifest::source::{Complaint, KnownOrg, SourceFile, is_source, read};
use manifest::stored::FileName;

/// Between two files of one input.
const NEXT: &str = "\n#### next file\n";

pub fn seeds() -> Vec<Vec<u8>> {
    let setting = Setting::unknown().expect("an example");
    let example: Vec<String> = setting
        .files()
        .into_iter()
        .filter(|file| is_source(&file.path))
        .map(|file| String::from_utf8(file.bytes).expect("a text"))
        .collect();
    let org = "org: {name: harbor, id: '0000000000000000000000000000000000000000000000000000000000000000'}";
    let small = format!("{org}\nnodes: {{a: }}\nusers: {{ann: {{roles: [operator], nodes: a}}}}\n");
    let json = "{\"org\": {\"name\": \"harbor\", \"id\": \"0000000000000000000000000000000000000000000000000000000000000000\"}, \"users\": {\"ann\": {\"roles\": [\"operator\"]}}}";
    let wrong = format!(
        "{small}classes: {{w: {{match: [web-*, '*-1']}}, v: {{match: 'v*'}}}}\nservices:\n  s: {{at: [a, w], addr: '0.0.0.0:80', groups: g}}\n  t: {{at: a, addr: 'localhost:80'}}\ngroups: [g]\nroles: {{node: {{allow: g}}}}\n"
    );
    let tunnels = format!(
        "{org}\nnodes:\n  a: {{address: 'a.example:7444', tunnel: {{transport: tls, listen: '0.0.0.0:7444', socks: off, resolver: '127.0.0.1:53'}}}}\n  b: {{tunnel: {{socks: {{at: '[::1]:1080', password: true}}, forward: {{'127.0.0.1:80': {{service: s, user: ann}}, '127.0.0.1:81': s}}}}}}\nusers: {{ann: {{roles: [operator, r], nodes: b}}}}\nservices: {{s: {{at: a, addr: '127.0.0.1:80', groups: g, tells_caller: true}}}}\nroles: {{r: {{allow: g}}, node: {{allow: g}}}}\ngroups: [g]\n"
    )
    .replace("org: {", "org: {stale: {margin: 1h, roles: [operator, node]}, ");
    [example.join(NEXT), small, json.to_owned(), wrong, tunnels].map(String::into_bytes).to_vec()
}

/// The files of the fleet, one after another. True: it came as far as to a fleet, or to what only the whole shows.
pub fn check(data: &[u8]) -> bool {
    let files: Vec<SourceFile> = split(data)
        .enumerate()
        .map(|(n, bytes)| {
            let ending = if bytes.starts_with(b"{") { "json" } else { "yaml" };
            SourceFile { path: format!("{n}.{ending}"), bytes: bytes.to_vec() }
        })
        .collect();
    let attached = |path: &FileName| match path.as_str() {
        "files/motd.txt" => Ok(b"hello".to_vec()),
        _ => Err("it is not there".to_owned()),
    };
    let known = KnownOrg { name: "harbor".parse().expect("a name"), id: identity::id::OrgId([0; 32]) };
    let told = read(&files, &attached, &[known]);
    if told.is_ok() {
        assert_eq!(read(&files, &attached, &[]), told, "to know the org takes nothing away");
    }
    let complaints = match &told {
        Ok((fleet, warnings)) => {
            assert!(warnings.iter().all(|complaint| !complaint.is_error()));
            assert!(fleet.users.values().any(|user| user.roles.iter().any(|role| role.as_str() == "operator")));
            for (class, spec) in &fleet.classes {
                let nodes = fleet.nodes.keys().filter(|node| spec.names.iter().any(|glob| glob.matches(node.as_str())));
                assert_eq!(nodes.count(), 0, "a node in the class {class}");
            }
            warnings
        }
        Err(complaints) => {
            assert!(complaints.iter().any(Complaint::is_error), "a refusal says why");
            complaints
        }
    };
    assert!(complaints.len() <= 1001, "nobody reads more");
    for complaint in complaints {
        let text = complaint.to_string();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "nothing steers the terminal");
        assert!(text.len() < 8 << 10, "a complaint is short");
        if let Some(place) = &complaint.place {
            assert!(place.line >= 1 && place.column >= 1);
            assert!(place.mark.from + place.mark.width <= place.text.chars().count() + 1, "the mark is under the line");
        }
        serde_json::to_string(complaint).expect("JSON");
    }
    told.is_ok() || complaints.iter().any(|complaint| complaint.message.contains("overlap"))
}

fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let here = rest?;
        match here.windows(NEXT.len()).position(|window| window == NEXT.as_bytes()) {
            Some(at) => {
                rest = Some(&here[at + NEXT.len()..]);
                Some(&here[..at])
            }
            None => {
                rest = None;
                Some(here)
            }
        }
    })
}
