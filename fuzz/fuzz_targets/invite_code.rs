//! See `fuzz::targets::invite_code`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    invite_code::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
