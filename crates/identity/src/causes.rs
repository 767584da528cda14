//! An error with what caused it, on one line: for logs, for reports, for people.

use std::error::Error;

/// What was said already is not said again.
pub fn describe(why: &dyn Error) -> String {
    let mut told = why.to_string();
    let mut at = why.source();
    while let Some(cause) = at {
        let text = cause.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        at = cause.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let mut texts = texts.iter().rev();
        let deepest = Layer { text: texts.next().unwrap(), source: None };
        texts.fold(deepest, |source, text| Layer { text, source: Some(Box::new(source)) })
    }

    #[test]
    fn each_cause_is_told_once_and_the_deepest_last() {
        let told = |texts: &[&'static str]| describe(&layers(texts));
        assert_eq!(told(&["no head"]), "no head");
        assert_eq!(told(&["no head", "no file", "no disk"]), "no head: no file: no disk");
        assert_eq!(told(&["no head: no file", "no file", "no disk"]), "no head: no file: no disk");
    }
}
