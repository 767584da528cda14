//! Requests and replies as JSON over HTTP/1.1, with every size and time bounded.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use org::refusal::{Fault, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub mod metrics;

/// Replies can be larger than requests: a page of the ledger.
pub(crate) const MAX_REPLY: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum BadBody {
    #[error("it is too large or was cut off")]
    Incomplete,
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
}

/// Reads a body of at most `limit` bytes.
pub async fn read<B>(body: B, limit: usize) -> Result<Bytes, BadBody>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Limited::new(body, limit).collect().await.map(http_body_util::Collected::to_bytes).map_err(|_| BadBody::Incomplete)
}

pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|why| Refusal::Malformed { why: why.to_string() })
}

pub fn reply<T: Serialize>(value: &T) -> hyper::Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(json) => response(StatusCode::OK, json),
        Err(_) => refuse(&Refusal::Failed { why: Fault::Program }),
    }
}

pub fn refuse(refusal: &Refusal) -> hyper::Response<Full<Bytes>> {
    response(status(refusal), serde_json::to_vec(refusal).unwrap_or_default())
}

fn response(status: StatusCode, json: Vec<u8>) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::new(Full::new(Bytes::from(json)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    headers.insert(hyper::header::CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}

/// A part that begins beyond the end: with the length of the whole, so that who has all of it knows.
pub fn beyond(length: u64) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::new(Full::default());
    *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
    if let Ok(value) = format!("bytes */{length}").parse() {
        response.headers_mut().insert(hyper::header::CONTENT_RANGE, value);
    }
    response
}

/// Where a part begins: only `bytes=N-` is understood, and what is not understood asks for the whole.
pub fn begins_at(range: Option<&hyper::header::HeaderValue>) -> Option<u64> {
    let text = range?.to_str().ok()?.strip_prefix("bytes=")?.strip_suffix('-')?;
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

const fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::TooManyAttempts { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Busy { .. }
        | Refusal::NoMandate
        | Refusal::HeadStale { .. }
        | Refusal::LedgerBehind
        | Refusal::Restored => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::NotFound { .. } => StatusCode::NOT_FOUND,
        Refusal::Malformed { .. } | Refusal::BadRequest | Refusal::BadBinding | Refusal::NoChallenge => {
            StatusCode::BAD_REQUEST
        }
        Refusal::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        Refusal::NameTaken { .. }
        | Refusal::NameOfAnother { .. }
        | Refusal::CounterConflict { .. }
        | Refusal::LedgerRefuses { .. } => StatusCode::CONFLICT,
        Refusal::Waiting | Refusal::ChangesHands { .. } | Refusal::AwaitingApproval { .. } => StatusCode::ACCEPTED,
        Refusal::InviteUnknown { .. }
        | Refusal::InviteRevoked
        | Refusal::InviteOutdated
        | Refusal::Suspended { .. }
        | Refusal::InviteExpired { .. }
        | Refusal::InviteUsedUp { .. }
        | Refusal::InviteNotHere
        | Refusal::NetworkNotAllowed
        | Refusal::NameNotAllowed { .. }
        | Refusal::NameUnlisted { .. }
        | Refusal::HostNotAllowed { .. }
        | Refusal::NoPattern
        | Refusal::OtherMachine
        | Refusal::Denied
        | Refusal::TooManyWaiting
        | Refusal::InboxFull { .. }
        | Refusal::BeyondCeiling { .. }
        | Refusal::BadProof
        | Refusal::KeyRevoked
        | Refusal::KeyLeft
        | Refusal::NotAdmitted
        | Refusal::AwayTooLong
        | Refusal::NotPlaced { .. }
        | Refusal::NotPermitted { .. }
        | Refusal::WeakKeyExchange
        | Refusal::NotAnOperator => StatusCode::FORBIDDEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_simplest_range_is_understood() {
        let at = |text: &str| begins_at(Some(&text.parse().unwrap()));
        assert_eq!((at("bytes=0-"), at("bytes=700-"), begins_at(None)), (Some(0), Some(700), None));
        for other in [
            "bytes=",
            "bytes=-",
            "bytes=-5",
            "bytes=1-2",
            "bytes=1-,3-",
            "bytes=+1-",
            "lines=1-",
            "bytes=1",
            "bytes= 1-",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
        assert_eq!(at(&format!("bytes={}0-", u64::MAX)), None);
    }
}
