//! See `fuzz::targets::store_rows`.
#![no_main]

use fuzz::targets::{
    hold_seeds,
    store_rows::{check, seeds},
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
