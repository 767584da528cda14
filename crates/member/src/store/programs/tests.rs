//! All three files are of one moment, nobody else may read the key, and what is old goes.

use std::os::unix::fs::symlink;

use super::*;

fn wiki() -> Principal {
    "spiffe://harbor/service/wiki".parse().unwrap()
}

fn handed(nth: u32) -> Handed {
    let text = |what: &str| format!("{what} {nth}\n");
    Handed { certificate: text("certificate"), key: Zeroizing::new(text("key")), roots: text("roots") }
}

const PRIVATE: Owned = Owned { user: None, group: None, mode: 0o600 };

fn bits(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn read(desk: &Desk) -> [String; 3] {
    [CERTIFICATE, KEY, ROOTS].map(|name| fs::read_to_string(desk.folder.join(name)).unwrap())
}

fn folders(desk: &Desk) -> usize {
    fs::read_dir(&desk.folder).unwrap().flatten().filter(|entry| entry.file_type().unwrap().is_dir()).count()
}

#[test]
fn certificate_key_and_roots_change_together_and_the_one_before_stays() {
    let (_root, scope) = crate::scene::scope();
    let desk = Desk::of(&scope, &wiki());
    let first = desk.hand(&scope, &handed(1), PRIVATE).unwrap();
    assert_eq!(read(&desk), ["certificate 1\n", "key 1\n", "roots 1\n"]);
    assert_eq!((bits(&desk.folder), bits(&scope.path(FOLDER)), bits(&desk.current())), (OPEN, WAY, OPEN));
    assert_eq!([CERTIFICATE, KEY, ROOTS].map(|name| bits(&desk.folder.join(name))), [0o644, 0o600, 0o644]);
    // Whoever reads goes through the link once, and has files that belong together, also after the next change.
    let held = desk.current().canonicalize().unwrap();
    assert_ne!(desk.hand(&scope, &handed(2), PRIVATE).unwrap(), first);
    assert_eq!(fs::read_to_string(held.join(KEY)).unwrap(), "key 1\n");
    assert_eq!((read(&desk)[1].as_str(), folders(&desk)), ("key 2\n", 2));
    desk.hand(&scope, &handed(3), PRIVATE).unwrap();
    assert!(!held.exists(), "older ones go");
    assert_eq!(folders(&desk), 2);
}

#[test]
fn what_lies_there_as_it_should_is_left_alone_and_what_does_not_is_mended() {
    let (_root, scope) = crate::scene::scope();
    let desk = Desk::of(&scope, &wiki());
    let first = desk.hand(&scope, &handed(1), PRIVATE).unwrap();
    let ino = || fs::metadata(desk.folder.join(KEY)).unwrap().ino();
    let before = ino();
    assert_eq!((desk.hand(&scope, &handed(1), PRIVATE).unwrap(), ino()), (first, before));
    let harm: [&dyn Fn(&Path); 4] = [
        &|at| fs::set_permissions(at.join(KEY), Permissions::from_mode(0o644)).unwrap(),
        &|at| fs::write(at.join(CERTIFICATE), "other").unwrap(),
        &|at| fs::remove_file(at.join(ROOTS)).unwrap(),
        &|at| {
            fs::rename(at.join(KEY), at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join(KEY)).unwrap();
        },
    ];
    for harm in harm {
        harm(&desk.current().canonicalize().unwrap());
        assert_eq!(desk.hand(&scope, &handed(1), PRIVATE).unwrap(), first);
        assert_eq!(read(&desk), ["certificate 1\n", "key 1\n", "roots 1\n"]);
        assert_eq!(bits(&desk.folder.join(KEY)), 0o600);
    }
    // Another mode is another folder: the key is never half open.
    desk.hand(&scope, &handed(1), Owned { mode: 0o440, ..PRIVATE }).unwrap();
    assert_eq!(bits(&desk.folder.join(KEY)), 0o440);
}

#[test]
fn what_was_cut_off_is_swept_and_who_moves_away_leaves_nothing() {
    let (_root, scope) = crate::scene::scope();
    let (desk, other) = (Desk::of(&scope, &wiki()), Desk::of(&scope, &"spiffe://harbor/user/ann".parse().unwrap()));
    desk.hand(&scope, &handed(1), PRIVATE).unwrap();
    other.hand(&scope, &handed(2), PRIVATE).unwrap();
    let draft = desk.folder.join(".4242.draft");
    fs::create_dir(&draft).unwrap();
    fs::write(draft.join(KEY), "half").unwrap();
    desk.hand(&scope, &handed(1), PRIVATE).unwrap();
    assert!(!draft.exists());
    keep_only(&scope, [wiki()].iter()).unwrap();
    assert!(desk.folder.exists() && !other.folder.exists());
    keep_only(&scope, std::iter::empty()).unwrap();
    assert_eq!(fs::read_dir(scope.path(FOLDER)).unwrap().count(), 0);
}

#[test]
fn nobody_else_is_let_through_unless_a_key_is_for_somebody_else() {
    let (root, scope) = crate::scene::scope();
    let desk = Desk::of(&scope, &wiki());
    desk.hand(&scope, &handed(1), PRIVATE).unwrap();
    assert_eq!(bits(&scope.folder), 0o700);
    // A group that this user is in, and which no folder belongs to.
    let group = Some(rustix::process::getegid().as_raw());
    let owned = Owned { group, mode: 0o640, ..PRIVATE };
    fs::set_permissions(root.path(), Permissions::from_mode(0o700)).unwrap();
    let outcome = desk.hand(&scope, &handed(1), owned);
    assert_eq!((bits(&scope.folder), bits(root.path())), (0o711, 0o711), "{outcome:?}");
    // A gateway's folder holds more than scopes.
    fs::set_permissions(root.path(), Permissions::from_mode(0o700)).unwrap();
    fs::write(root.path().join("gateway.json"), "{}").unwrap();
    let why = desk.hand(&scope, &handed(1), owned).unwrap_err().to_string();
    assert_eq!(why, format!("others cannot pass `{0}`: chmod o+x '{0}'", root.path().display()));
    assert_eq!(bits(root.path()), 0o700);
}

#[test]
fn a_key_is_given_away_by_root_and_else_it_is_said_what_to_do() {
    let (_root, scope) = crate::scene::scope();
    let desk = Desk::of(&scope, &wiki());
    let nobody = Owned { user: Some(65534), ..PRIVATE };
    match desk.hand(&scope, &handed(1), nobody) {
        Ok(_) => {
            assert_eq!(own_user(), 0);
            let meta = fs::metadata(desk.folder.join(KEY)).unwrap();
            assert_eq!((meta.uid(), bits(&desk.folder.join(KEY))), (65534, 0o600));
            assert_eq!(fs::metadata(desk.folder.join(CERTIFICATE)).unwrap().uid(), 0, "only the key is given away");
        }
        Err(why) => {
            assert!(own_user() != 0 && matches!(why, NotHanded::NoPower { .. }), "{why}");
            let told = why.to_string();
            assert!(told.contains("let it run as root (freehold-node service install)"), "{told}");
            assert!(!desk.folder.join(KEY).exists(), "no key lies there that is not as the manifest says");
        }
    }
}
