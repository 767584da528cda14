//! See `fuzz::targets::head`.
#![no_main]

use fuzz::targets::{
    head::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
