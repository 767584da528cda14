//! Turns of trust, as a node takes them: tried, confirmed, gone back from, retired; and killed or damaged in between.

use std::collections::BTreeSet;

use ground::random;
use identity::authority::Authority;
use identity::bundle::{Domain, Endpoint, Identity};
use identity::certificate::Validity;
use identity::head::{TrustLine, TrustState};
use identity::id::Serial;
use org::founding::Founding;

use super::*;
use crate::scene::{self, NOW};

const TRYING: Trying = Trying { within: Seconds(100), offline: false, urged: false };

/// An org with as many roots as a test wants.
struct Org {
    founding: Founding,
    /// The endpoint root that it was founded with.
    first: String,
}

impl Org {
    fn new() -> Self {
        let first = Self::root::<Endpoint>();
        let root = identity::certificate::from_pem(&first).unwrap().remove(0);
        Self { founding: scene::founded_on(root.to_vec()), first }
    }

    fn root<D: InDomain>() -> String {
        let validity = Validity::from_now(NOW, Seconds::DAY.times(3650));
        let root =
            Authority::<D>::root(&"harbor".parse().unwrap(), &random::p256().unwrap(), Serial([9; 16]), validity);
        root.unwrap().pem()
    }

    fn bundle<D: InDomain>(&self, version: u64, pem: &str) -> Bundle<D> {
        let org = "harbor".parse().unwrap();
        let body = Bundle::<D>::draft(version, None, &org, Vec::new(), pem, NOW).unwrap();
        let envelope = scene::sealed(&self.founding, &body, "ann");
        Bundle::open(&self.founding.first_signers(), &envelope).unwrap()
    }

    fn known(&self, version: u64, trust: Vec<TrustLine>) -> Known {
        let head = Head { version, trust, ..scene::head(&self.founding) };
        scene::known(&self.founding, &head)
    }
}

fn line<D: InDomain>(bundle: &Bundle<D>, state: TrustState) -> TrustLine {
    TrustLine::new(D::DOMAIN, bundle.body().trust_bundle_version, bundle.digest(), state)
}

/// A scope that has taken version 1, and versions 1 and 2.
struct Scene {
    _root: tempfile::TempDir,
    scope: Scope,
    org: Org,
    one: Bundle<Endpoint>,
    two: Bundle<Endpoint>,
}

use TrustState::{Active, Grace, Retired, Staged};

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
        scope.make_keys().unwrap();
        let org = Org::new();
        let (one, two) = (org.bundle(1, &org.first), org.bundle(2, &Org::root::<Endpoint>()));
        let scene = Self { _root: root, scope, org, one, two };
        let known = scene.head(1, Active, None);
        scene.open(&known, NOW).take(&scene.scope, &known.head.head, vec![scene.one.clone()], NOW).unwrap();
        scene
    }

    fn head(&self, version: u64, one: TrustState, two: Option<TrustState>) -> Known {
        let two = two.map(|state| line(&self.two, state));
        self.org.known(version, std::iter::once(line(&self.one, one)).chain(two).collect())
    }

    fn open(&self, known: &Known, now: Timestamp) -> Trusting<Endpoint> {
        Trusting::open(&self.scope, known, now).unwrap()
    }

    fn offer(&self, known: &Known, trying: Trying, now: Timestamp) -> Outcome {
        let mut trusting = self.open(known, now);
        let named = |bundle: &&Bundle<Endpoint>| {
            known.head.head.trusted_bundles(Domain::Endpoint).any(|line| line.bundle == bundle.digest())
        };
        let bundles = [&self.one, &self.two].into_iter().filter(named).cloned().collect();
        trusting.offer(&self.scope, &known.head.head, bundles, trying, now).unwrap()
    }

    fn versions(&self, known: &Known, now: Timestamp) -> Vec<u64> {
        self.open(known, now).versions(&known.head.head)
    }

    /// What other programs read, by version.
    fn read_by_others(&self) -> BTreeSet<u64> {
        let text = std::fs::read_to_string(self.scope.path("trust/endpoint.pem")).unwrap();
        let has = |bundle: &&Bundle<Endpoint>| text.contains(bundle.pem());
        [&self.one, &self.two].iter().filter(|it| has(it)).map(|it| it.body().trust_bundle_version).collect()
    }
}

#[test]
fn a_new_version_is_obeyed_on_trial_and_stays_when_a_gateway_was_reached_under_it() {
    let scene = Scene::new();
    let known = scene.head(2, Active, Some(Staged));
    assert_eq!(scene.offer(&known, TRYING, NOW), Outcome::OnTrial);
    assert_eq!((scene.versions(&known, NOW), scene.read_by_others()), (vec![1, 2], [1, 2].into()));
    let mut trusting = scene.open(&known, NOW + Seconds(5));
    let tried: Vec<_> = trusting.tried().iter().map(|it| it.body().trust_bundle_version).collect();
    assert_eq!(tried, [2], "only what is new is tried");
    assert_eq!(trusting.told(&known.head.head).unwrap().trial, Some(2));
    assert_eq!(trusting.found(Ok(()), NOW + Seconds(5)).unwrap(), Outcome::Confirmed);
    let told = scene.open(&known, NOW + Seconds(5000)).told(&known.head.head).unwrap();
    assert_eq!((told.version, told.versions, told.trial), (2, vec![1, 2], None));
    assert_eq!((told.updated_at, told.refused), (Some(NOW + Seconds(5)), None));
    let same = scene.head(3, Active, Some(Staged));
    assert_eq!(scene.offer(&same, TRYING, NOW + Seconds(50)), Outcome::Same);
    let told = scene.open(&same, NOW + Seconds(60)).told(&same.head.head).unwrap();
    assert_eq!(told.updated_at, Some(NOW + Seconds(5)), "nothing was taken since");
}

#[test]
fn what_was_not_confirmed_in_time_goes_back_and_is_not_tried_again_until_the_head_says_something_else() {
    let scene = Scene::new();
    let known = scene.head(2, Active, Some(Staged));
    scene.offer(&known, TRYING, NOW);
    let late = NOW + Seconds(100);
    // Also before anybody wrote it down.
    assert_eq!(scene.versions(&known, late), [1]);
    let mut trusting = scene.open(&known, late);
    assert_eq!(
        trusting.lapse(Some(Unfit::Roots("quay speaks of another root".to_owned())), late).unwrap(),
        Outcome::WentBack
    );
    trusting.settle(&scene.scope, &known.head.head).unwrap();
    assert_eq!((scene.versions(&known, late), scene.read_by_others()), (vec![1], [1].into()));
    let refused = scene.open(&known, late).told(&known.head.head).unwrap().refused.unwrap();
    assert!(refused.why.contains("quay speaks of another root"), "{}", refused.why);
    // A later head with the same lines brings nothing new; one with others does, and so does a person.
    let same = scene.head(3, Active, Some(Staged));
    assert_eq!(scene.offer(&same, TRYING, late), Outcome::NotAgain);
    assert_eq!(scene.versions(&same, late), [1]);
    assert_eq!(scene.offer(&same, Trying { urged: true, ..TRYING }, late), Outcome::OnTrial);
    scene.open(&same, late + Seconds(200)).lapse(None, late + Seconds(200)).unwrap();
    assert_eq!(scene.offer(&scene.head(4, Grace, Some(Active)), TRYING, late + Seconds(200)), Outcome::OnTrial);
}

#[test]
fn what_is_retired_counts_no_more_with_the_head_alone_whatever_was_taken_or_went_back() {
    let scene = Scene::new();
    let both = scene.head(2, Active, Some(Staged));
    scene.offer(&both, TRYING, NOW);
    let late = NOW + Seconds(100);
    scene.open(&both, late).lapse(None, late).unwrap();
    // It went back to version 1, and version 1 is retired: what is left counts, at once and without an offer.
    let known = scene.head(3, Retired, Some(Active));
    assert_eq!(scene.versions(&known, late), [2]);
    scene.open(&known, late).settle(&scene.scope, &known.head.head).unwrap();
    assert_eq!(scene.read_by_others(), [2].into());
    assert_eq!(scene.offer(&known, TRYING, late), Outcome::Swapped);
    assert_eq!(scene.versions(&known, late), [2]);
}

#[test]
fn a_head_that_leaves_nothing_of_what_is_here_leaves_the_file_for_others_until_the_new_roots_come() {
    let scene = Scene::new();
    let known = scene.head(2, Retired, Some(Active));
    let mut trusting = scene.open(&known, NOW);
    assert!(!trusting.is_served(&known.head.head) && trusting.roots(&known.head.head).certificates().is_empty());
    trusting.settle(&scene.scope, &known.head.head).unwrap();
    assert_eq!(scene.read_by_others(), [1].into(), "never nothing");
    assert_eq!(scene.offer(&known, TRYING, NOW), Outcome::Swapped);
    assert_eq!((scene.versions(&known, NOW), scene.read_by_others()), (vec![2], [2].into()));
}

#[test]
fn a_stolen_root_is_taken_from_other_programs_before_the_new_one_is_here() {
    let scene = Scene::new();
    let mut stolen = line(&scene.one, Retired);
    stolen.distrusted = true;
    let known = scene.org.known(2, vec![stolen, line(&scene.two, Active)]);
    let mut trusting = scene.open(&known, NOW);
    trusting.settle(&scene.scope, &known.head.head).unwrap();
    assert!(!scene.scope.path("trust/endpoint.pem").exists());
    assert!(trusting.roots(&known.head.head).certificates().is_empty(), "nothing is believed until then");
    trusting.take(&scene.scope, &known.head.head, vec![scene.two.clone()], NOW).unwrap();
    assert_eq!(scene.read_by_others(), [2].into());
}

#[test]
fn a_version_with_the_same_roots_and_one_less_version_need_no_trial() {
    let scene = Scene::new();
    let again = scene.org.bundle::<Endpoint>(3, scene.one.pem());
    let lines = vec![line(&scene.one, Retired), line(&scene.two, Retired), line(&again, Active)];
    let known = scene.org.known(4, lines);
    let mut trusting = scene.open(&known, NOW);
    let offered = trusting.offer(&scene.scope, &known.head.head, vec![again], TRYING, NOW).unwrap();
    assert_eq!((offered, trusting.versions(&known.head.head)), (Outcome::Swapped, vec![3]));
}

#[test]
fn a_scope_of_before_has_taken_the_versions_whose_roots_others_read() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.scope.path("trust/endpoint")).unwrap();
    let known = scene.head(2, Active, Some(Staged));
    let before = scene.open(&known, NOW);
    assert!(!before.is_served(&known.head.head) && before.told(&known.head.head).is_none());
    assert_eq!(before.roots(&known.head.head).certificates(), scene.one.roots().certificates());
    assert_eq!(scene.offer(&known, TRYING, NOW), Outcome::OnTrial, "what is new is tried as ever");
    let late = NOW + Seconds(100);
    assert_eq!(scene.versions(&known, late), [1]);
    // With a file that fits nothing there is nothing to go back to.
    std::fs::remove_dir_all(scene.scope.path("trust/endpoint")).unwrap();
    std::fs::write(scene.scope.path("trust/endpoint.pem"), Org::root::<Endpoint>()).unwrap();
    assert_eq!(scene.offer(&known, TRYING, NOW), Outcome::Confirmed);
    assert_eq!(scene.read_by_others(), [1, 2].into());
}

#[test]
fn a_scope_without_a_record_goes_by_no_root_that_it_knows_to_be_retired() {
    let scene = Scene::new();
    let both = scene.head(2, Active, Some(Staged));
    scene.offer(&both, TRYING, NOW);
    scene.open(&both, NOW).found(Ok(()), NOW).unwrap();
    std::fs::remove_file(scene.scope.path("trust/endpoint/trial.json")).unwrap();
    let roots = |one, two| {
        let known = scene.head(3, one, Some(two));
        scene.open(&known, NOW).roots(&known.head.head).certificates().to_vec()
    };
    let (first, second) = (scene.one.roots().certificates().to_vec(), scene.two.roots().certificates().to_vec());
    assert_eq!(roots(Grace, Active), [first.clone(), second.clone()].concat());
    assert_eq!(roots(Retired, Active), second);
    assert_eq!(roots(Active, Retired), first);
    // A scope of before has no versions at all, and knows the founders' root.
    std::fs::remove_dir_all(scene.scope.path("trust/endpoint")).unwrap();
    assert_eq!(roots(Retired, Active), second);
    // Somebody went back to it under another number.
    let again = scene.org.bundle::<Endpoint>(3, scene.one.pem());
    let known = scene.org.known(4, vec![line(&scene.one, Retired), line(&again, Active)]);
    scene.open(&known, NOW).offer(&scene.scope, &known.head.head, vec![again], TRYING, NOW).unwrap();
    std::fs::remove_file(scene.scope.path("trust/endpoint/trial.json")).unwrap();
    assert_eq!(scene.open(&known, NOW).roots(&known.head.head).certificates(), first);
}

#[test]
fn damage_to_a_file_costs_no_root_that_is_trusted_and_brings_back_none_that_is_not() {
    let scene = Scene::new();
    let known = scene.head(2, Active, Some(Staged));
    scene.offer(&known, TRYING, NOW);
    scene.open(&known, NOW).found(Ok(()), NOW).unwrap();
    let folder = scene.scope.path("trust/endpoint");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        for broken in [&b""[..], &whole[..whole.len() / 2], b"\0\xff garbage"] {
            std::fs::write(&path, broken).unwrap();
            let trusting = scene.open(&known, NOW);
            let roots = trusting.roots(&known.head.head);
            assert!(roots.certificates().contains(&scene.one.roots().certificates()[0]), "{}", path.display());
        }
        std::fs::write(&path, whole).unwrap();
    }
    assert_eq!(scene.versions(&known, NOW), [1, 2]);
}

#[test]
fn a_bundle_of_one_domain_is_never_read_from_the_shelf_of_the_other() {
    let scene = Scene::new();
    let known = scene.head(1, Active, None);
    scene.scope.create().unwrap();
    let (from, to) = (scene.scope.path("trust/endpoint"), scene.scope.path("trust/identity"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let swapped = Trusting::<Identity>::open(&scene.scope, &known, NOW).unwrap();
    assert!(swapped.shelf.is_empty() && swapped.roots(&known.head.head).certificates().is_empty());
}

#[test]
fn a_start_costs_a_trial_a_tenth_and_a_clock_that_is_put_back_gives_it_no_time() {
    let scene = Scene::new();
    let known = scene.head(2, Active, Some(Staged));
    scene.offer(&known, TRYING, NOW);
    for _ in 0..9 {
        scene.open(&known, NOW).restarted(NOW).unwrap();
        assert!(scene.open(&known, NOW).trial().is_some());
    }
    scene.open(&known, NOW).restarted(NOW).unwrap();
    assert!(scene.open(&known, NOW).trial().is_none(), "ten starts are too many");

    let other = Scene::new();
    let known = other.head(2, Active, Some(Staged));
    other.offer(&known, TRYING, NOW);
    let mut clock = NOW;
    for _ in 0..12 {
        clock = clock + Seconds(11);
        other.open(&known, clock).lapse(None, clock).unwrap();
        clock = NOW;
        other.open(&known, clock).lapse(None, clock).unwrap();
    }
    assert!(other.open(&known, clock).trial().is_none());
}
