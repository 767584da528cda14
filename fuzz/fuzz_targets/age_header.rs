//! See `fuzz::targets::age_header`.
#![no_main]

use fuzz::targets::{
    age_header::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
