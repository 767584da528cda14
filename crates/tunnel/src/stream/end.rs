//! How a stream ended: in good order, broken off by one side, or cut by a new policy.

use std::time::Duration;

use quinn::{ClosedStream, ConnectionError, ReadError, WriteError};

use crate::access::denied::Denied;
use crate::frame::reader::NoFrame;

/// Over TLS, a side that is not heard of for so long is gone.
pub(crate) const SILENT: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamEnd {
    #[error("both sides ended it")]
    Whole,
    #[error("the program's side broke off: {0}")]
    Near(#[source] std::io::Error),
    #[error("the other node's side broke off")]
    Broken,
    #[error("the connection to the other node failed: {0}")]
    Far(#[source] FarFailure),
    #[error("nothing was heard of the other node for {} s", SILENT.as_secs())]
    Silent,
    #[error("nothing was carried for too long")]
    Idle,
    #[error("{0}")]
    Cut(Denied),
}

/// What failed on the way to the other node, as the transport says it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FarFailure {
    #[error(transparent)]
    Frame(#[from] NoFrame),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Closed(#[from] ClosedStream),
    #[error(transparent)]
    Lost(#[from] ConnectionError),
}
