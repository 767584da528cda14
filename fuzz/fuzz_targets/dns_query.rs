//! See `fuzz::targets::dns_query`.
#![no_main]

use fuzz::targets::{
    dns_query::{check, seeds},
    hold_seeds,
};

libfuzzer_sys::fuzz_target!(init: hold_seeds(seeds, check), |data: &[u8]| {
    check(data);
});
