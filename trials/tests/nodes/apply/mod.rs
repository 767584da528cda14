//! The real agent applies what was published, and is cut off at each step: old or new, never between.

mod kills;
mod power;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trials::place::{Place, Running, output, succeeded, text, until};

use crate::publishing::{QUAY, Scene};

/// A machine that settled with the first fleet, while the second is published and waits for it.
pub struct Waiting {
    pub scene: Scene,
    _gateway: Running,
    old: String,
}

impl Waiting {
    pub fn new() -> Self {
        let scene = Scene::new();
        let gateway = scene.place.serve();
        scene.place.joined("web-1");
        declare(&scene, "one");
        scene.publish();
        let agent = scene.place.agent("web-1");
        until("the first manifest is confirmed", || confirmed(&scene.place).is_some());
        agent.kill();
        let old = confirmed(&scene.place).unwrap();
        assert_eq!(motd(&scene.place.scope("web-1")), "one");
        declare(&scene, "two");
        scene.publish();
        copy(&scene.place.root("web-1"), &scene.place.path("saved"));
        Self { scene, _gateway: gateway, old }
    }

    pub fn place(&self) -> &Place {
        &self.scene.place
    }

    /// The agent, as a command of its own.
    pub fn agent(&self) -> Command {
        self.place().node_command("web-1", &["run", "--every", "1s"])
    }

    /// Is the second one confirmed, by the record on the disk?
    pub fn is_through(&self) -> bool {
        confirmed(self.place()).is_some_and(|confirmed| confirmed != self.old)
    }

    /// What a reader finds now is whole; then the agent runs undisturbed, and ends with the second one. Was it there?
    pub fn check(&self, what: &str) -> bool {
        let scope = self.place().scope("web-1");
        let found = motd(&scope);
        assert!(found == "one" || found == "two", "{what}: {found:?}");
        let manifest: Value =
            serde_json::from_slice(&std::fs::read(scope.join("state/current/manifest.json")).unwrap()).unwrap();
        let told = text(&manifest["runs"]["files"]["etc/motd"], "content");
        assert_eq!(told, if found == "one" { "b25l" } else { "dHdv" }, "{what}: manifest and files are of one");
        let agent = quiet(self.agent());
        until(&format!("{what}: the second manifest is confirmed"), || self.is_through());
        agent.kill();
        assert_eq!(motd(&scope), "two", "{what}");
        // The one before it may still be needed; nothing else is left.
        assert_eq!(std::fs::read_dir(scope.join("state/manifests")).unwrap().count(), 2, "{what}");
        found == "two"
    }
}

fn declare(scene: &Scene, motd: &str) {
    scene.declare(&format!(
        "{QUAY}\nclasses:\n  web:\n    match: web-*\n    files:\n      etc/motd: {{content: {motd}}}"
    ));
}

fn confirmed(place: &Place) -> Option<String> {
    let record = std::fs::read(place.scope("web-1").join("state/trial.json")).ok()?;
    let record: Value = serde_json::from_slice(&record).ok()?;
    let settled = record["standing"]["trial"].is_null();
    record["standing"]["confirmed"]["digest"].as_str().filter(|_| settled).map(str::to_owned)
}

fn motd(scope: &Path) -> String {
    std::fs::read_to_string(scope.join("state/current/files/etc/motd")).unwrap()
}

pub fn quiet(mut command: Command) -> Running {
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

pub fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    succeeded(&output(command));
}
