//! What reports mean for a head.

use ground::random;
use identity::key::{PublicKey, Sign as _};
use identity::members::Meant;
use org::report::{Mark, Refused};

use super::*;
use crate::session::reports::Heard;

const OTHER: Digest = Digest([2; 32]);
const SINCE: Timestamp = Timestamp::from_unix(1_000_000);

struct Scene {
    watch: Watch,
    key: PublicKey,
    wanted: Digest,
}

fn scene() -> Scene {
    let key = random::p256().unwrap().public();
    let name: NodeName = "web-1".parse().unwrap();
    // Its deadline is five minutes.
    let manifest = Manifest::empty(2);
    let wanted = manifest.digest();
    let leaf = NodeLeaf { name: name.clone(), node_key: key.digest(), admission: OTHER, manifest: Meant::Own(wanted) };
    let manifests = [(wanted, manifest.bytes())].into();
    let watch = Watch::new(7, SINCE, &[Leaf::Node(leaf)], &manifests, [(name, SINCE)].into());
    Scene { watch, key, wanted }
}

impl Scene {
    fn report(&self, version: u64, applied: Applied) -> Report {
        Report {
            node: "web-1".parse().unwrap(),
            node_key: self.key,
            at: SINCE,
            head: Mark { version, digest: OTHER },
            schema: 2,
            applied,
            refused: None,
            agent: "0.1.0".to_owned(),
            trust: None,
            left: None,
            beside: None,
            programs: Vec::new(),
        }
    }

    fn heard(&mut self, report: Report) -> NodeFate {
        self.watch.hear([(report.node_key.digest(), Heard { report, received_at: SINCE })].into());
        self.now(SINCE)
    }

    fn now(&self, now: Timestamp) -> NodeFate {
        self.watch.fates(now).into_values().next().unwrap()
    }
}

#[test]
fn a_report_means_what_the_node_made_of_this_head_and_this_manifest() {
    let mut scene = scene();
    let wanted = scene.wanted;
    let deadline = SINCE + Seconds(300);
    let on_trial = |manifest| Applied::OnTrial { manifest, previous: None, deadline, waits: Vec::new() };
    let back = |manifest| Applied::RolledBack { manifest, to: None, at: SINCE, why: "check `wiki`".to_owned() };
    for (version, applied, fate) in [
        (6, Applied::Settled { manifest: wanted }, NodeFate::NotReached),
        (7, Applied::Nothing, NodeFate::Reached),
        (7, Applied::Settled { manifest: OTHER }, NodeFate::Reached),
        (7, on_trial(OTHER), NodeFate::Reached),
        (7, on_trial(wanted), NodeFate::OnTrial { deadline, waits: Vec::new() }),
        (7, back(OTHER), NodeFate::Reached),
        (7, back(wanted), NodeFate::RolledBack { why: "check `wiki`".to_owned() }),
        (7, Applied::Settled { manifest: wanted }, NodeFate::Confirmed),
        (9, Applied::Settled { manifest: wanted }, NodeFate::Confirmed),
    ] {
        let report = scene.report(version, applied.clone());
        assert_eq!(scene.heard(report), fate, "{version} {applied:?}");
    }
    let mut refusing = scene.report(6, Applied::Nothing);
    refusing.refused = Some(Refused { at: SINCE, why: "a newer schema".to_owned() });
    assert!(scene.heard(refusing.clone()).is_bad());
    // What it refused before is about something else.
    refusing.refused = Some(Refused { at: SINCE - Seconds(1), why: "a newer schema".to_owned() });
    assert_eq!(scene.heard(refusing), NodeFate::NotReached);
}

#[test]
fn a_key_that_no_leaf_names_says_nothing_about_the_name() {
    let mut scene = scene();
    let wanted = scene.wanted;
    let mut forged = scene.report(7, Applied::Settled { manifest: wanted });
    forged.node_key = random::p256().unwrap().public();
    assert_eq!(scene.heard(forged), NodeFate::NotReached);
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let mut scene = scene();
    let wanted = scene.wanted;
    assert!(!scene.watch.is_over(SINCE));
    assert_eq!(scene.now(SINCE + Seconds(60)), NodeFate::Offline);
    assert!(scene.watch.is_over(SINCE + Seconds(60)));
    scene.watch.last_seen.clear();
    assert!(scene.watch.is_over(SINCE), "one that was never seen");

    let deadline = SINCE + Seconds(300);
    let trial = Applied::OnTrial { manifest: wanted, previous: None, deadline, waits: Vec::new() };
    let report = scene.report(7, trial);
    scene.heard(report);
    assert!(!scene.watch.is_over(deadline));
    assert!(scene.watch.is_over(deadline + Seconds(15)));
    // A deadline that no manifest gives is a lie, and does not count.
    let trial =
        Applied::OnTrial { manifest: wanted, previous: None, deadline: SINCE + Seconds::DAY, waits: Vec::new() };
    let report = scene.report(7, trial);
    scene.heard(report);
    assert!(!scene.watch.is_over(deadline + Seconds(15)));
    assert!(scene.watch.is_over(SINCE + Seconds(120 + 300 + 15)));
    let report = scene.report(7, Applied::Settled { manifest: wanted });
    scene.heard(report);
    assert!(scene.watch.is_over(SINCE));
}

#[test]
fn receipts_count_nodes_that_have_the_head_on_their_disk() {
    let scene = scene();
    let report = scene.report(7, Applied::Nothing);
    let reports: Reports = [(scene.key.digest(), Heard { report, received_at: SINCE })].into();
    let members = || [("web-1".parse().unwrap(), scene.key.digest()), ("web-2".parse().unwrap(), OTHER)];
    assert_eq!(
        Receipts::of(7, members(), &reports).in_words(7),
        "refused at the gateways; confirmed by 1 of 2 nodes, not yet by `web-2`\nno longer waited for: each learns of it \
         from the first gateway or node that it meets; see whether it reports head 7: freehold node show web-2"
    );
    assert_eq!(Receipts::of(8, members(), &reports).confirmed, Vec::<NodeName>::new());
}
