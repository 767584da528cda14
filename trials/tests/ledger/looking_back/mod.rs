//! Looking back, and looking ahead: who could reach what, how long machines last without a gateway, whose clock is wrong.

mod access;
mod without_gateway;
mod clocks;

use ground::clock;
use trials::place::until;

/// Times have whole seconds: what happens next is later than this moment.
pub fn moment() -> String {
    let then = clock::now();
    until("a second is over", || clock::now() > then);
    let at = clock::now();
    until("another second is over", || clock::now() > at);
    at.to_string()
}
