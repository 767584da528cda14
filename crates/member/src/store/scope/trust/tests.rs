//! Two domains, two files: no path, link or later change makes one of them.

use std::os::unix::fs::symlink;

use super::*;

fn scene() -> (tempfile::TempDir, Scope) {
    let root = tempfile::tempdir().unwrap();
    let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
    scope.make_keys().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    symlink("a", root.path().join("a-too")).unwrap();
    (root, scope)
}

fn paths(endpoint: Option<PathBuf>, identity: Option<PathBuf>) -> TrustPaths {
    TrustPaths { endpoint, identity }
}

#[test]
fn paths_that_are_one_file_are_refused_however_they_are_written() {
    let (root, scope) = scene();
    let at = |name: &str| root.path().join(name);
    assert_eq!(scope.check_trust_paths(&TrustPaths::default()), Ok(()));
    assert_eq!(scope.check_trust_paths(&paths(Some(at("a/x.pem")), Some(at("b/x.pem")))), Ok(()));
    let same = |endpoint: PathBuf, identity: PathBuf| {
        let checked = scope.check_trust_paths(&paths(Some(endpoint.clone()), Some(identity.clone())));
        assert_eq!(checked, Err(BadTrustPath::Same { endpoint, identity }));
    };
    same(at("a/x.pem"), at("a/x.pem"));
    same(at("a/x.pem"), at("a/./x.pem"));
    same(at("a/x.pem"), at("b/../a/x.pem"));
    same(at("a/x.pem"), at("a-too/x.pem"));
    // A link to where nothing is yet, a link to what is there, another name of the same file.
    symlink("x.pem", at("a/link.pem")).unwrap();
    same(at("a/x.pem"), at("a/link.pem"));
    fs::write(at("a/x.pem"), "").unwrap();
    same(at("a/link.pem"), at("a/x.pem"));
    fs::hard_link(at("a/x.pem"), at("b/hard.pem")).unwrap();
    same(at("a/x.pem"), at("b/hard.pem"));
    // One moved onto the other's own place.
    let own = scope.path("trust/identity.pem");
    let checked = scope.check_trust_paths(&paths(Some(own.clone()), None));
    assert_eq!(checked, Err(BadTrustPath::Same { endpoint: own.clone(), identity: own }));
}

#[test]
fn nothing_else_is_overwritten() {
    let (root, scope) = scene();
    let at = |name: &str| root.path().join(name);
    let check = |path: PathBuf| scope.check_trust_paths(&paths(Some(path), None));
    fs::write(at("a/passwd"), "root:x:0:0").unwrap();
    assert!(matches!(check(at("a/passwd")), Err(BadTrustPath::Foreign(_))));
    assert!(matches!(check(at("a")), Err(BadTrustPath::Foreign(_))));
    assert!(matches!(check(scope.path("node.key")), Err(BadTrustPath::Own { .. })));
    assert!(matches!(check(at("nowhere/x.pem")), Err(BadTrustPath::NoFolder(_))));
    assert!(matches!(check("x.pem".into()), Err(BadTrustPath::Relative(_))));
    symlink("elsewhere", at("a/link.pem")).unwrap();
    assert!(matches!(check(at("a/link.pem")), Err(BadTrustPath::Link(_))));
    assert_eq!(check(scope.path("trust/endpoint.pem")), Ok(()));
}
