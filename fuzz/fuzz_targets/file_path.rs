//! See `fuzz::targets::file_path`.
#![no_main]

use fuzz::targets::{
    file_path::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
