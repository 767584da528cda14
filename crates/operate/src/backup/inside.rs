//! A path that stays inside the folder to which it belongs, whoever wrote it.

/// What somebody wrote as a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path inside a folder")]
pub struct NotInside(String);

/// `a/b/c`: parts without `.` and `..`, never from the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inside(String);

const MAX_LENGTH: usize = 1024;

impl Inside {
    pub fn new(text: &str) -> Result<Self, NotInside> {
        let part = |part: &str| {
            !matches!(part, "" | "." | "..") && part.len() <= 255 && !part.chars().any(|c| c.is_control() || c == '\\')
        };
        if text.len() <= MAX_LENGTH && text.split('/').all(part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotInside(text.escape_default().to_string()))
        }
    }

    pub fn join(&self, name: &str) -> Result<Self, NotInside> {
        Self::new(&format!("{}/{name}", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn first(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.split('/').count()
    }

    /// Keys end so, and nothing else does.
    pub fn is_key(&self) -> bool {
        std::path::Path::new(&self.0).extension().is_some_and(|ending| ending == "key")
    }

    /// Every folder in which it lies, the nearest first.
    pub fn above(&self) -> impl Iterator<Item = Self> {
        let ends = self.0.rmatch_indices('/').map(|(at, _)| at);
        ends.filter_map(|at| self.0.get(..at)).map(|above| Self(above.to_owned()))
    }
}

impl std::fmt::Display for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Inside {
    type Err = NotInside;
    fn from_str(text: &str) -> Result<Self, NotInside> {
        Self::new(text)
    }
}

identity::text_form!(Inside);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out() {
        for text in ["operator/known.json", "a", "a/..b/c", "gateway/node/svids/1/svid.pem"] {
            assert!(Inside::new(text).is_ok(), "{text}");
        }
        let long = "a".repeat(256);
        for text in ["", "/", "/etc/passwd", "..", "a/../b", "a/..", "./a", "a//b", "a/", "a\\b", "a\0b", "a\nb", &long]
        {
            assert!(Inside::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_folders_above_are_all_of_them() {
        let above: Vec<_> = Inside::new("a/b/c").unwrap().above().map(|above| above.to_string()).collect();
        assert_eq!(above, ["a/b", "a"]);
    }
}
