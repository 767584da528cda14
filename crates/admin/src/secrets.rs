//! What to do when a passphrase or a key could not be had.

use ground::file::FileError;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use operate::folder::OperatorFolder;
use operate::key::KeyError;
use terminal::failure::Failure;

pub fn key_failure(folder: &OperatorFolder, doing: &str, why: &KeyError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        KeyError::Passphrase(why) => failure.hint(without_passphrase(
            why,
            "give the passphrase with --passphrase-file FILE, run this at a terminal, or unlock first: freehold unlock",
        )),
        KeyError::Seal(SealError::WrongPassphrase) => failure.hint("nothing was done: try again"),
        KeyError::Seal(SealError::Unreadable) => failure.hint(format!(
            "the key files are in `{}`: put a good copy of the one that is damaged in its place",
            folder.path("signers").display()
        )),
        KeyError::NoKey => failure.hint("run this where the signers' key files are: --home DIR"),
        KeyError::Token { source, .. } => match source.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        KeyError::File(_)
        | KeyError::Seal(_)
        | KeyError::NotAKey(_)
        | KeyError::BadTokenFile { .. }
        | KeyError::Sign(_) => failure,
    }
}

/// Tells whoever chose a passphrase that it is weak; whether that is enough is theirs to say.
pub fn tell_if_weak(quiet: bool, passphrase: &Passphrase) {
    if !quiet && passphrase.is_weak() {
        let bits = passphrase.guessed_within();
        eprintln!(
            "note: this passphrase is WEAK: whoever gets the files finds it in 2^{bits} guesses or fewer; four or more words \
             drawn at random are better"
        );
    }
}

/// What cures it: a passphrase that is there already need not be given in another way.
pub fn without_passphrase(why: &NoPassphrase, otherwise: &str) -> String {
    match why {
        NoPassphrase::File(FileError::NotPrivate { path, .. }) => format!("chmod 600 {}", path.display()),
        NoPassphrase::File(FileError::Io { .. } | FileError::TooLarge { .. }) | NoPassphrase::BadFile => {
            "name a file whose first line is the passphrase, and that only you can read".to_owned()
        }
        NoPassphrase::Differ | NoPassphrase::Empty => "nothing was done: type it again".to_owned(),
        NoPassphrase::NoTerminal | NoPassphrase::Terminal(_) => otherwise.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ground::file::{self, FileAccess};

    use super::*;

    #[test]
    fn a_passphrase_that_others_can_read_is_to_be_made_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passphrase");
        file::write(&file, b"sea\n", FileAccess::Readable).unwrap();
        let hint = |why: &NoPassphrase| without_passphrase(why, "give it with --passphrase-file FILE");
        let why = Passphrase::from_file(&file).unwrap_err();
        assert_eq!(hint(&why), format!("chmod 600 {}", file.display()));
        let why = Passphrase::from_file(&folder.path().join("nowhere")).unwrap_err();
        assert!(hint(&why).starts_with("name a file"), "{}", hint(&why));
        assert_eq!(hint(&NoPassphrase::NoTerminal), "give it with --passphrase-file FILE");
    }
}
