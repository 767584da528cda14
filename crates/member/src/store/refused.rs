//! Why the last offer was not believed, on disk until one is.

use org::report::Refused;

use crate::store::scope::{Scope, ScopeError, write_json};

const NAME: &str = "refused.json";

pub(crate) fn load(scope: &Scope) -> Result<Option<Refused>, ScopeError> {
    Ok(scope.read_or_forget::<Option<Refused>>(NAME)?.flatten())
}

pub(crate) fn save(scope: &Scope, refused: Option<&Refused>) -> Result<(), ScopeError> {
    write_json(&scope.path(NAME), &refused)
}
