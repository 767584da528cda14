//! The head that this machine left: it followed a higher one that does not name it. Operators hear of it.

use identity::id::Digest;
use org::report::Mark;
use wire::known::Known;

use super::{Scope, ScopeError};

const LEFT: &str = "left.json";

impl Scope {
    /// Nothing once a head that names it is followed; nothing, too, if the file cannot be read: it is for people alone.
    pub fn left(&self) -> Option<Mark> {
        self.read_json::<Option<Mark>>(LEFT).ok().flatten().flatten()
    }

    pub(super) fn note_left(&self, before: &Known, now: &Known) -> Result<(), ScopeError> {
        let own = Mark { version: before.head.head.version, digest: before.head.digest };
        let left = self.left();
        let next = next(left, own, |digest| now.names(digest));
        if next == left { Ok(()) } else { self.write_json(LEFT, &next) }
    }
}

/// What is left after a step from `own` to a head that names these.
fn next(left: Option<Mark>, own: Mark, names: impl Fn(Digest) -> bool) -> Option<Mark> {
    if names(own.digest) { left.filter(|left| !names(left.digest)) } else { Some(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(version: u8) -> Mark {
        Mark { version: u64::from(version), digest: Digest([version; 32]) }
    }

    #[test]
    fn a_head_that_the_next_does_not_name_is_left_until_a_later_one_names_it() {
        let names = |named: &'static [u8]| move |digest: Digest| named.iter().any(|it| mark(*it).digest == digest);
        assert_eq!(next(None, mark(1), names(&[1, 2])), None);
        assert_eq!(next(None, mark(2), names(&[1, 3])), Some(mark(2)));
        assert_eq!(next(Some(mark(2)), mark(3), names(&[3, 4])), Some(mark(2)), "it is told further on");
        assert_eq!(next(Some(mark(2)), mark(4), names(&[2, 4, 5])), None, "the operators took it in");
        assert_eq!(next(Some(mark(2)), mark(4), names(&[6])), Some(mark(4)), "the last one is told");
    }
}
