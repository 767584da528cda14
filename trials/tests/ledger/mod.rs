//! What is written down for good: audited, looked back on, backed up, put back, and read in every format that was ever used.

mod audit;
mod looking_back;
mod passed_heads;
mod backup;
mod older_copy;
mod newer_format;
mod public_formats;
mod fixtures;
