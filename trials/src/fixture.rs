//! What earlier versions wrote: copies of the committed files, with the modes that they had.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn below(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder).join(name)
}

/// What was written before the first release: an org's home, a node's scope, a backup, a card. Each is refused.
pub fn before(name: &str) -> PathBuf {
    below("before", name)
}

/// The formats of the first release: an org's home, a node's scope, a code, what a machine sends.
pub fn v1(name: &str) -> PathBuf {
    below("v1", name)
}

/// An org with everything that signers can do.
pub fn governed(name: &str) -> PathBuf {
    below("governed", name)
}

/// Conversations: what was asked, and what was answered.
pub fn talk(name: &str) -> PathBuf {
    below("talk", name)
}

/// An org with a published fleet: a node's state, a tree.
pub fn published(name: &str) -> PathBuf {
    below("published", name)
}

/// An org with every way in: a machine that waits, bundles, codes.
pub fn ways(name: &str) -> PathBuf {
    below("ways", name)
}

/// An org whose roots were turned: versions in every state, a node that has them.
pub fn turns(name: &str) -> PathBuf {
    below("turns", name)
}

/// What is written in formats of others: backups for age, with what opens them, and a box by HPKE.
pub fn standard(name: &str) -> PathBuf {
    below("standard", name)
}

/// Bundles since they are age files.
pub fn carried(name: &str) -> PathBuf {
    below("carried", name)
}

/// Copies a fixture's folder. Version control keeps no modes: keys and folders are made private again.
pub fn copy_folder(from: &Path, to: &Path) {
    let or_panic = |done: std::io::Result<()>| done.unwrap_or_else(|why| panic!("`{}`: {why}", from.display()));
    or_panic(std::fs::create_dir_all(to));
    or_panic(std::fs::set_permissions(to, Permissions::from_mode(0o700)));
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_symlink() {
            let target = std::fs::read_link(&from).unwrap_or_default();
            or_panic(std::os::unix::fs::symlink(target, &to));
        } else if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            let readable = from.extension().is_some_and(|ending| ending == "pem");
            or_panic(std::fs::copy(&from, &to).map(|_| ()));
            or_panic(std::fs::set_permissions(&to, Permissions::from_mode(if readable { 0o644 } else { 0o600 })));
        }
    }
}
