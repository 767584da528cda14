//! How many may be here at once: as many as there are file descriptors for, and never all of them for one node.

/// Handshakes at once. Each keeps some tens of kilobytes, and takes a fraction of a millisecond of work.
pub(crate) const STRANGERS: usize = 1_024;
/// Connections of peers, and streams that peers opened.
pub(crate) const CONNECTIONS: usize = 32_768;
pub(crate) const STREAMS: usize = 32_768;
/// Half of them, so that one node never keeps all others out.
pub(crate) const CONNECTIONS_OF_ONE: usize = CONNECTIONS / 2;
pub(crate) const STREAMS_OF_ONE: usize = STREAMS / 2;
/// Connections of programs of this machine.
pub(crate) const PROGRAMS: usize = 16_384;

/// What follows from the number of descriptors that the process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub strangers: usize,
    /// Of peers: a connection over TLS has one, and so has a stream, to its service. Together, so that a node may have many of
    /// either.
    pub sockets: usize,
    pub sockets_of_one: usize,
    pub programs: usize,
}

impl Bounds {
    /// A quarter is never the peers', and of what is theirs, a third is not one node's.
    pub(crate) fn of(files: Option<u64>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let sockets = (CONNECTIONS + STREAMS).min(files / 4 * 3);
        Self {
            strangers: STRANGERS.min(files / 8),
            sockets,
            sockets_of_one: sockets / 3 * 2,
            programs: PROGRAMS.min(files / 2),
        }
    }

    /// What is less than usual; nothing if nothing is.
    pub(crate) fn told(self) -> Option<String> {
        let Self { sockets, sockets_of_one, programs, .. } = self;
        (self != Self::default()).then(|| {
            format!(
                "at most {sockets} connections and streams of others ({sockets_of_one} of one node) and {programs} \
                 programs, since it may have few open files"
            )
        })
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::of(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_descriptors_enough_they_bound_nothing() {
        for files in [Some(262_144), Some(1 << 20), Some(u64::MAX), None] {
            let bounds = Bounds::of(files);
            assert_eq!((bounds, bounds.told()), (Bounds::default(), None), "{files:?}");
        }
        let usual = Bounds::default();
        assert!(usual.sockets_of_one >= CONNECTIONS_OF_ONE + STREAMS_OF_ONE && usual.programs == PROGRAMS);
    }

    #[test]
    fn where_there_are_few_descriptors_some_are_left() {
        for files in [64_usize, 1_024, 4_096, 20_000, 65_536] {
            let bounds = Bounds::of(u64::try_from(files).ok());
            assert!(bounds.sockets + bounds.strangers <= files - files / 8, "{files}: {bounds:?}");
            assert!(bounds.sockets_of_one < bounds.sockets && bounds.programs <= files / 2, "{files}: {bounds:?}");
            assert!(bounds.told().is_some_and(|told| told.contains("few open files")), "{files}");
        }
    }
}
