//! Each layer of the verifier, broken alone.

use super::*;
