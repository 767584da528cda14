//! Why what answers is no gateway, or its answer cannot be read.

use hyper::StatusCode;

use crate::http::BadBody;
use crate::permit::Ask;

/// Why what answers is not a gateway.
#[derive(Debug, thiserror::Error)]
pub enum Foreign {
    /// Whoever has seen a gateway's certificate can show it, but cannot sign with its key.
    #[error("it shows a certificate whose key it does not have")]
    NoKey,
    #[error("it does not speak TLS as gateways do ({0})")]
    NotTls(Box<rustls::Error>),
}

/// Why an answer, or what it takes to get one, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadReply {
    #[error("its name")]
    Name,
    #[error("TLS gave no exporter")]
    NoExporter,
    #[error("{0}")]
    Request(hyper::http::Error),
    #[error("{0}")]
    Body(BadBody),
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("status {0} without a reason that this program knows")]
    Status(StatusCode),
    #[error("nothing at {}", .0.path())]
    Nothing(Ask),
    #[error("another answer than was asked for")]
    Another,
    /// What is wrong with the bundles that it gave.
    #[error("{0}")]
    Bundles(&'static str),
    #[error("it is this very machine")]
    OwnGateway,
}
