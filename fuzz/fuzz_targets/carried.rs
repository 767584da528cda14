//! See `fuzz::targets::carried`.
#![no_main]

use fuzz::targets::{
    carried::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
