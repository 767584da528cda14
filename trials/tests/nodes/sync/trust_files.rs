//! The files of the two domains, set from outside: by whatever way two paths lead to one file, that is refused.

use std::os::unix::fs::symlink;

use trials::place::{Place, ended, stderr, succeeded};

#[test]
fn the_roots_of_two_domains_never_get_into_one_file() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let folder = place.path("pki");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    symlink(&folder, place.path("link")).unwrap();
    symlink(folder.join("deep"), place.path("deeper")).unwrap();
    std::fs::write(folder.join("one.pem"), "").unwrap();
    std::fs::hard_link(folder.join("one.pem"), folder.join("hard.pem")).unwrap();
    symlink(folder.join("later.pem"), folder.join("dangling.pem")).unwrap();
    let code = place.code(&["--name", "web-1"]);
    let join = |endpoint: &str, identity: &str| {
        let path = |name: &str| place.path(name).to_string_lossy().into_owned();
        let (endpoint, identity) = (path(endpoint), path(identity));
        place.node(
            "web-1",
            &["join", "--name", "web-1", "--endpoint-pem", &endpoint, "--identity-pem", &identity],
            &code,
        )
    };
    for (endpoint, identity) in [
        ("pki/a.pem", "pki/a.pem"),
        ("pki/a.pem", "link/a.pem"),
        ("pki/a.pem", "pki/deep/../a.pem"),
        ("pki/a.pem", "deeper/../a.pem"),
        ("link/deep/a.pem", "deeper/a.pem"),
        ("pki/one.pem", "pki/hard.pem"),
        ("pki/later.pem", "pki/dangling.pem"),
    ] {
        let told = join(endpoint, identity);
        ended(&told, 1, "");
        assert!(stderr(&told).contains("are one file") || stderr(&told).contains("is a link"), "{}", stderr(&told));
        assert!(!place.scope("web-1").join("svid.pem").exists(), "{endpoint} {identity}");
        assert!(!folder.join("a.pem").exists() && !folder.join("later.pem").exists(), "{endpoint} {identity}");
    }
    // Names that differ by case are two files here, and hold two different things.
    succeeded(&join("pki/a.pem", "pki/A.pem"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_ne!(read("a.pem"), read("A.pem"));
    // One that becomes the other later is not written either.
    std::fs::remove_file(folder.join("A.pem")).unwrap();
    symlink(folder.join("a.pem"), folder.join("A.pem")).unwrap();
    let before = read("a.pem");
    let _ = place.node("web-1", &["sync"], "");
    assert_eq!(read("a.pem"), before);
}
