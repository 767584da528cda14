//! See `fuzz::targets::admission`.
#![no_main]

use fuzz::targets::{
    admission::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
