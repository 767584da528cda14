//! See `fuzz::targets::fleet`.
#![no_main]

use fuzz::targets::{
    fleet::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
