//! Every refusal of a joiner, held against real signatures.
