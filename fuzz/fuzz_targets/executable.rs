//! See `fuzz::targets::executable`.
#![no_main]

use fuzz::targets::{
    executable::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
