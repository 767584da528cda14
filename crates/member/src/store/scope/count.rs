//! How many SVIDs a principal had here: the next one is asked for under the next number, and a number is never used twice.

use std::path::Path;

use ground::file::{self, FileAccess};

use super::{Scope, ScopeError, Seat, Unsound};

/// In an empty seat: the number of the last SVID that was there.
const LEFT: &str = "left";

impl Scope {
    /// Those who are wanted here again, and of whose SVIDs nobody knows how many there were.
    pub(crate) fn uncounted_seats(&self) -> Vec<ScopeError> {
        let entries = std::fs::read_dir(self.path("principals")).into_iter().flatten().flatten();
        let seats = entries.map(|entry| Seat { folder: entry.path() });
        seats.filter(Seat::is_taken).filter_map(|seat| seat.check_count().err()).collect()
    }
}

impl Seat {
    /// The number of the SVID in use, or of the last one that was; nothing was issued yet at 0.
    pub fn counter(&self) -> u64 {
        self.seen().or_else(|| self.left()).unwrap_or(0)
    }

    /// By what lies there. A folder with a certificate and its key is as good as a link that is gone; with less in it, whoever put
    /// it there was killed, and the same is asked for again.
    fn seen(&self) -> Option<u64> {
        let target = std::fs::read_link(self.folder.join("current")).ok();
        let linked = target.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
        let is_whole = |folder: &Path| ["svid.pem", "svid.key"].iter().all(|name| folder.join(name).exists());
        let folders = || std::fs::read_dir(self.folder.join("svids")).into_iter().flatten().flatten();
        let whole = || folders().filter(|entry| is_whole(&entry.path()));
        linked.or_else(|| whole().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max())
    }

    fn left(&self) -> Option<u64> {
        std::fs::read_to_string(self.folder.join(LEFT)).ok()?.trim().parse().ok()
    }

    /// Counted from the beginning again, this would be a second machine with this one's key.
    pub(super) fn check_count(&self) -> Result<(), ScopeError> {
        let path = self.folder.join(LEFT);
        if self.seen().is_some() || self.left().is_some() || !path.exists() {
            return Ok(());
        }
        Err(ScopeError::Damaged { path, why: Unsound::NotACount })
    }

    /// For whoever comes back. What is damaged stays so: it is told.
    pub(super) fn leave_count(&self) -> Result<(), ScopeError> {
        if self.check_count().is_ok() {
            file::write(&self.folder.join(LEFT), self.counter().to_string().as_bytes(), FileAccess::Private)?;
        }
        Ok(())
    }
}
