//! See `fuzz::targets::backup_tar`.
#![no_main]

use fuzz::targets::{
    backup_tar::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
