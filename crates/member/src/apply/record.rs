//! Where a node stands, on disk: one file, replaced as a whole.

use std::path::Path;

use ground::file::{self, FileAccess, FileError};
use identity::id::Digest;
use serde::{Deserialize, Serialize};

use crate::apply::trial::Standing;

const SCHEMA: u32 = 1;
const NAME: &str = "trial.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    schema: u32,
    /// Of the standing: a flipped bit in a digest would otherwise go unnoticed.
    sum: Digest,
    standing: Standing,
}

/// What was found on the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Standing(Box<Standing>),
    Damaged(String),
}

pub(crate) fn load(folder: &Path) -> Result<Found, FileError> {
    let Some(bytes) = file::read_if_there(&folder.join(NAME))? else {
        return Ok(Found::Nothing);
    };
    Ok(match serde_json::from_slice::<Record>(&bytes) {
        Err(why) => Found::Damaged(why.to_string()),
        Ok(record) if record.schema != SCHEMA => Found::Damaged(format!("it has schema {}", record.schema)),
        Ok(record) if record.sum != sum(&record.standing) => Found::Damaged("its sum is wrong".to_owned()),
        Ok(record) => Found::Standing(Box::new(record.standing)),
    })
}

pub(crate) fn save(folder: &Path, standing: &Standing) -> Result<(), FileError> {
    let record = Record { schema: SCHEMA, sum: sum(standing), standing: standing.clone() };
    file::write(&folder.join(NAME), &serde_json::to_vec_pretty(&record).unwrap_or_default(), FileAccess::Private)
}

fn sum(standing: &Standing) -> Digest {
    Digest::of(&serde_json::to_vec(standing).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use identity::time::{Seconds, Timestamp};
    use manifest::stored::Confirm;

    use super::*;
    use crate::apply::trial::{Failed, Item, Trial, TrialTerms, Why};

    fn item(n: u8) -> Item {
        Item { digest: Digest([n; 32]), runs: Digest([n + 100; 32]) }
    }

    fn standing() -> Standing {
        let terms = TrialTerms { confirm: Confirm::Operator, fresh: false, within: Seconds(300) };
        let at = Timestamp::from_unix(1_800_000_000);
        Standing {
            head: 7,
            confirmed: Some(item(1)),
            previous: None,
            trial: Some(Trial::begin(item(2), terms, at)),
            failed: Some(Failed { item: item(3), why: Why::Unconfirmed("the checks".to_owned()), at }),
        }
    }

    #[test]
    fn what_was_saved_is_found_but_for_the_evidence() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).unwrap(), Found::Nothing);
        let mut saved = standing();
        saved.trial.as_mut().unwrap().evidence.reached = true;
        save(folder.path(), &saved).unwrap();
        assert_eq!(load(folder.path()).unwrap(), Found::Standing(Box::new(standing())));
    }

    #[test]
    fn a_record_with_any_changed_byte_is_damaged_or_means_the_same() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &standing()).unwrap();
        let good = std::fs::read(folder.path().join(NAME)).unwrap();
        let mut damaged = 0;
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(folder.path().join(NAME), &bad).unwrap();
            match load(folder.path()).unwrap() {
                Found::Damaged(_) => damaged += 1,
                found => assert_eq!(found, Found::Standing(Box::new(standing())), "byte {at}"),
            }
        }
        assert!(damaged > good.len() / 2, "{damaged} of {}", good.len());
        std::fs::write(folder.path().join(NAME), &good[..good.len() / 2]).unwrap();
        assert!(matches!(load(folder.path()).unwrap(), Found::Damaged(_)));
    }

    /// As the first release writes it; never edited.
    #[test]
    fn the_first_format_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), include_bytes!("record/v1.json")).unwrap();
        assert_eq!(load(folder.path()).unwrap(), Found::Standing(Box::new(standing())));
    }
}
