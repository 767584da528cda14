//! Numbers for whoever watches: what a page of them looks like, and the port that shows it.

pub mod text;
pub mod port;
