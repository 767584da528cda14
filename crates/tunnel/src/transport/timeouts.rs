//! How long the other side has for what, and how often it says that it lives.

use std::time::Duration;

/// A handshake takes two round trips and a few signatures.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The other side connects to the service meanwhile, for which it takes ten seconds at most.
pub(crate) const OPENED: Duration = Duration::from_secs(15);
/// Whoever is asked says that it lives in a fraction of that, while it connects. If nothing comes, the way there is another
/// one by now, or nobody knows of the connection any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// So often, over TLS; over QUIC the transport itself says what arrived.
pub(crate) const BEAT: Duration = Duration::from_millis(250);
/// Nobody says over UDP that nobody is there.
pub(crate) const QUIC_ANSWER: Duration = Duration::from_secs(5);
