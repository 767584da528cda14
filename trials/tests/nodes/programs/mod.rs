//! Programs that speak TLS with their SVIDs: what the guide shows of each, with the real ones.

mod handed;
mod names;
mod nginx;
mod postgres;
mod python;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use identity::certificate::{self, Reading};
use serde_json::Value;
use trials::place::{Place, Running, output, stdout, succeeded, until};

use crate::publishing::Scene;

const GUIDE: &str = include_str!("../../../../docs/guide/programs.md");
/// Where the guide has the folders of programs.
const FOLDER: &str = "/var/lib/freehold/harbor/programs";

/// One machine, where services and ann are at home.
struct Home {
    scene: Scene,
    _gateway: Running,
    agent: Option<Running>,
}

impl Home {
    /// Its SVIDs live so long.
    fn of(life: &str) -> Self {
        let scene = Scene::founded(&["--node", "quay", "--svid-ttl", life]);
        let gateway = scene.place.serve();
        scene.place.joined("web-1");
        // A temporary folder is closed to everybody else; `/var/lib` is not.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scene.place.path(""), open).unwrap();
        Self { scene, _gateway: gateway, agent: None }
    }

    fn place(&self) -> &Place {
        &self.scene.place
    }

    /// Publishes a fleet with these services, and this of ann, who is at home here; the agent obeys.
    fn publish(&mut self, services: &str, ann: &str) {
        self.declare(services, ann);
        self.scene.publish();
        if self.agent.is_none() {
            self.agent = Some(self.scene.place.agent("web-1"));
        }
    }

    fn declare(&self, services: &str, ann: &str) {
        let id = self.place().facts(&["org", "list"])[0]["org_id"].clone();
        let org = format!("org:\n  name: harbor\n  id: {id}\n  svid: {{dns: \"*.example.org\"}}");
        let people = format!("users:\n  ann:\n    roles: operator\n    nodes: [quay, web-1]\n{ann}");
        let rest = "roles:\n  operator: {allow: pages}\ngroups: [pages]\nnodes:\n  quay: {address: \"@PEERS@\", relay: true}\n  web-1:";
        self.place().write_fleet(&format!("{org}\n{people}\n{rest}\n{services}\n"));
    }

    /// Where a program reads.
    fn folder(&self, whose: &str) -> PathBuf {
        self.programs().join(whose)
    }

    fn programs(&self) -> PathBuf {
        self.place().scope("web-1").join("programs")
    }

    /// A block of the guide, as it would stand on this machine.
    fn shown(&self, kind: &str) -> String {
        block(kind).replace(FOLDER, self.programs().to_str().unwrap())
    }

    fn has(&self, whose: &str) {
        until("its program has its SVID", || self.folder(whose).join("svid.pem").exists());
    }

    fn serial(&self, whose: &str) -> Vec<u8> {
        self.reading(whose).serial
    }

    /// What the certificate says that a program reads.
    fn reading(&self, whose: &str) -> Reading {
        let pem = std::fs::read_to_string(self.folder(whose).join("svid.pem")).unwrap();
        certificate::read(&certificate::from_pem(&pem).unwrap()[0]).unwrap()
    }

    /// What the node says of one program.
    fn told(&self, principal: &str) -> Value {
        let status = self.place().status("web-1");
        let programs = status["programs"].as_array().unwrap();
        programs.iter().find(|view| view["principal"] == principal).cloned().unwrap_or_default()
    }
}

/// Of this kind there is one in the guide.
fn block(kind: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("```{kind}\n")).unwrap_or_else(|| panic!("the guide shows no {kind}"));
    rest.split_once("```").unwrap().0
}

/// The service in the guide's block for the fleet that declares it.
fn service(name: &str) -> &'static str {
    let blocks = GUIDE.split("```fleet\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let mut found = blocks.filter(|block| block.contains(&format!("\n  {name}:\n")));
    found.next().unwrap_or_else(|| panic!("the guide shows no service {name}"))
}

/// What the server at this port shows, to whoever shows what lies in that folder.
fn serial_shown(client: &str, port: u16, starttls: &[&str]) -> Option<String> {
    let file = |name: &str| format!("{client}/{name}");
    let address = format!("127.0.0.1:{port}");
    let (certificate, key, roots) = (file("svid.pem"), file("svid.key"), file("roots.pem"));
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address, "-cert", &certificate, "-cert_chain", &certificate, "-key", &key]);
    command.args(["-CAfile", &roots, "-verify_return_error", "-showcerts"]).args(starttls);
    let told = stdout(&output(command));
    let pem = told.split_once("-----BEGIN CERTIFICATE-----")?.1.split_once("-----END CERTIFICATE-----")?.0;
    let pem = format!("-----BEGIN CERTIFICATE-----{pem}-----END CERTIFICATE-----\n");
    let read = certificate::read(&certificate::from_pem(&pem).ok()?[0]).ok()?;
    Some(identity::text::hex(&read.serial))
}

/// The number of a user of this machine.
fn user(name: &str) -> u32 {
    let mut command = Command::new("id");
    command.args(["-u", name]);
    let told = output(command);
    succeeded(&told);
    stdout(&told).trim().parse().unwrap()
}
