//! What a gateway answers. One request goes downward: `port` takes the connection and finds out who asks what, the file in
//! `answer` that is named like the request decides, `write` makes it durable.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod store;
mod fault;
pub mod limit;
pub mod write;
pub mod gateway;
pub mod answer;
pub mod replicate;
pub mod port;
