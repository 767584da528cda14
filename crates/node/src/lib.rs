//! A machine in an org: what it keeps, what it asks, and, if it is a gateway, what it answers.

pub mod store;
#[cfg(test)]
mod scene;
pub mod apply;
pub mod metrics;
pub mod ask;
pub mod agent;
pub mod answer;
pub mod program;
pub mod report;
pub mod doctor;
pub mod service;
pub mod commands;
