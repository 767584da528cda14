//! What time it is. The only place that asks.

use std::time::{SystemTime, UNIX_EPOCH};

use identity::time::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
