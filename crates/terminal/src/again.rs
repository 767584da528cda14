//! What was typed wrong may be typed again, a few times.

/// So often a passphrase or phrase may be typed.
const TRIES: usize = 3;

/// Asks again if what was typed was wrong; what is wrong in a file is wrong each time.
pub fn patiently<T, E>(
    typed: bool,
    wrong: impl Fn(&E) -> Option<String>,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..TRIES {
        let done = attempt();
        match done.as_ref().err().filter(|_| typed).and_then(&wrong) {
            Some(what) => eprintln!("{what}: try again"),
            None => return done,
        }
    }
    attempt()
}

/// What is said of a wrong passphrase, if that is what it is.
pub fn wrong_passphrase(is_so: bool) -> Option<String> {
    is_so.then(|| "the passphrase is wrong".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_wrong_may_be_typed_twice_more_and_a_file_is_read_once() {
        for (typed, tries) in [(true, 3), (false, 1)] {
            let mut seen = 0;
            let attempt = || -> Result<(), &str> {
                seen += 1;
                Err("wrong")
            };
            assert_eq!(patiently(typed, |why| (*why == "wrong").then(String::new), attempt), Err("wrong"));
            assert_eq!(seen, tries);
        }
        let mut left = vec![Ok(7), Err("wrong")];
        assert_eq!(patiently(true, |_| Some(String::new()), || left.pop().unwrap()), Ok(7));
        assert_eq!(patiently(true, |_| None, || Err::<(), _>("damaged")), Err("damaged"));
    }
}
