//! Something in its written form: made once, and put as it is into the answers of all who are told the same.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug, Clone)]
pub struct Written(Arc<RawValue>);

impl Written {
    pub fn of(value: &impl Serialize) -> Self {
        // What cannot be written is nothing, and no reader takes that for something.
        let raw = to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(Arc::from(raw))
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::serialize(&self.0, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_stands_there_as_if_it_were_written_now() {
        let told = [("a", "with \"quotes\""), ("b", "line\nbreak")];
        let written = told.map(|pair| Written::of(&pair));
        assert_eq!(serde_json::to_vec(&written).unwrap(), serde_json::to_vec(&told).unwrap());
    }
}
