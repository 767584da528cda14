//! See `fuzz::targets::socks`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    socks::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
