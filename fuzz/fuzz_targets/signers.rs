//! See `fuzz::targets::signers`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    signers::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
