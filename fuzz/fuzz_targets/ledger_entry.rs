//! See `fuzz::targets::ledger_entry`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    ledger_entry::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
