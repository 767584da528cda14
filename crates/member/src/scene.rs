//! A machine in an org by hand, for tests.

pub use trials::scene::*;

use crate::store::scope::Scope;

/// A machine's folder, with the keys that last.
pub(crate) fn scope() -> (tempfile::TempDir, Scope) {
    let root = tempfile::tempdir().unwrap();
    let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
    scope.make_keys().unwrap();
    (root, scope)
}
