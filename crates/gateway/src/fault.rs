//! What goes wrong inside a gateway: its log gets the whole story, whoever asked hears only which part failed.

use std::error::Error;
use std::io;

use identity::causes::describe;
use ledger::error::LedgerError;
use org::refusal::{Fault, Refusal};

/// An error of ours becomes an answer.
pub(crate) trait OrFault<T> {
    fn or_fault(self, part: Fault) -> Result<T, Refusal>;
}

impl<T, E: Error + 'static> OrFault<T> for Result<T, E> {
    fn or_fault(self, part: Fault) -> Result<T, Refusal> {
        self.map_err(|why| failed(part, &why))
    }
}

/// Says it to the log, and gives the answer.
pub(crate) fn failed(part: Fault, why: &(dyn Error + 'static)) -> Refusal {
    let fault = precise(part, why);
    tracing::error!(why = describe(why), "the gateway could not do what it was asked: {fault}");
    Refusal::Failed { why: fault }
}

/// A full disk is told as such, wherever it shows: it is what a person can mend.
pub(crate) fn precise(part: Fault, why: &(dyn Error + 'static)) -> Fault {
    let mut cause = Some(why);
    while let Some(why) = cause {
        let full = why.downcast_ref::<LedgerError>().is_some_and(LedgerError::is_full)
            || why
                .downcast_ref::<io::Error>()
                .is_some_and(|why| matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
        if full {
            return Fault::DiskFull;
        }
        cause = why.source();
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files::FilesError;

    fn io(kind: io::ErrorKind) -> FilesError {
        FilesError::Io { doing: "write", path: "/secret/place".into(), source: kind.into() }
    }

    #[test]
    fn a_full_disk_is_named_however_deep_it_lies() {
        assert_eq!(precise(Fault::Disk, &io(io::ErrorKind::StorageFull)), Fault::DiskFull);
        assert_eq!(precise(Fault::Disk, &io(io::ErrorKind::QuotaExceeded)), Fault::DiskFull);
        assert_eq!(precise(Fault::Disk, &io(io::ErrorKind::PermissionDenied)), Fault::Disk);
    }

    #[test]
    fn whoever_asks_hears_nothing_of_the_gateways_folders() {
        let told = failed(Fault::Disk, &io(io::ErrorKind::PermissionDenied));
        assert_eq!(told.to_string(), "the gateway could not do it: its files cannot be read or written");
        assert!(!serde_json::to_string(&told).unwrap().contains("secret"));
    }
}
