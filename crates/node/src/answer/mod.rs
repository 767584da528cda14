//! What a gateway answers. One request goes downward: `serve` takes the connection, `conversation` finds out who asks
//! what, the file named like the request decides, `writer` makes it durable.

// How much an asker may take, what is counted, what holds the gateway back.
pub mod limits;
pub mod crowd;
pub mod download;
pub mod door;
pub mod registry;
pub mod tally;
pub mod halt;

// How something becomes durable.
pub mod tips;
pub mod jottings;
pub mod peers;
pub mod told;
pub mod published;
pub mod suspended;
pub mod desk;
pub mod presence;
pub mod merge;
pub mod writer;
pub mod gateway;
pub mod vouch;

// Answers: a file for each request.
pub mod issue;
pub mod documents;
pub mod trust;
pub mod files;
pub mod approve;
pub mod enroll;
pub mod reuse;
pub mod renew;
pub mod sync;
pub mod recover;
pub mod show;
pub mod stage;
pub mod control;

// Asking others.
pub mod mesh;
pub mod fetch;
pub mod company;
pub mod exchange;
pub mod begin;

// Connections.
pub mod conversation;
pub mod guest;
pub mod endpoint;
pub mod metrics;
pub mod serve;
