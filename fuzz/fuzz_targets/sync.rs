//! See `fuzz::targets::sync`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    sync::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
