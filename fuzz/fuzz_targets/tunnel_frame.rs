//! See `fuzz::targets::tunnel_frame`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    tunnel_frame::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
