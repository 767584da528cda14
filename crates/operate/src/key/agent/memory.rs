//! Keys in memory: a page of their own that is not swapped out, in a process that leaves no core.

use std::io;

use identity::key::{BadKey, EdKey, PublicKey, Sign};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// No core dump, and no debugger of the same user.
pub(crate) fn harden() -> io::Result<()> {
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// An opened key, for as long as the agent lives. The lock goes first, so that it never outlives its page.
pub(crate) struct PagedKey {
    lock: Option<region::LockGuard>,
    page: Box<Page>,
}

/// Alone on its page: unlocking one key must not unlock its neighbor.
#[repr(align(4096))]
struct Page(EdKey);

impl PagedKey {
    /// If the system does not let the page be locked, the key is held all the same, and the status says so.
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let page = Box::new(Page(EdKey::from_seed(seed)));
        let lock = region::lock(&raw const *page, size_of::<Page>()).ok();
        Self { lock, page }
    }

    pub(crate) const fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
}

impl std::fmt::Debug for PagedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PagedKey({})", self.public())
    }
}

impl Sign for PagedKey {
    fn public(&self) -> PublicKey {
        self.page.0.public()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey> {
        self.page.0.sign(message)
    }
}
