//! See `fuzz::targets::certificate_request`.
#![no_main]

use fuzz::targets::{
    certificate_request::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
