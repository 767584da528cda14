//! Why the last offer was not believed, on disk until one is.

use org::report::Refused;

use crate::store::scope::{Scope, ScopeError, read_json, write_json};

const NAME: &str = "refused.json";

pub(crate) fn load(scope: &Scope) -> Result<Option<Refused>, ScopeError> {
    Ok(read_json::<Option<Refused>>(&scope.path(NAME))?.flatten())
}

pub(crate) fn save(scope: &Scope, refused: Option<&Refused>) -> Result<(), ScopeError> {
    write_json(&scope.path(NAME), &refused)
}
