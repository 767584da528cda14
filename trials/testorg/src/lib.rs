//! An org by hand, for tests: `harbor`, in which `ann` signs, with keys that follow from names. Whoever takes a part of it
//! changes what its own test is about: `Head { version: 2, ..first_head(signers) }`.
//!
//! It stands on `identity` and `org` alone, so that tests of every crate above take it, and those of `org` the parts that are
//! `identity`'s: to a crate's own tests, types of that crate are others than those in here.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keys;
mod head;
mod founding;
mod join;

pub use founding::{founded, founding, record};
pub use head::{first_head, mandate};
pub use join::{claim, invite};
pub use keys::{key, machine_key, node, quorum, quorum_of, sealed, signed};

use identity::time::Timestamp;

pub const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
