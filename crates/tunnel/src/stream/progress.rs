//! How far a stream has come: what both of its directions share while it is carried.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::state::meter::ServiceMeter;
use crate::state::streams::Direction;

/// What both directions of a stream share.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    meter: &'a ServiceMeter,
    direction: Direction,
    pub out: AtomicU64,
    pub back: AtomicU64,
    pub begun: Instant,
    /// Milliseconds from the beginning to the last byte.
    pub moved: AtomicU64,
    pub sent_end: AtomicBool,
    /// Tells whoever waits for it that the end was sent.
    pub told_end: Notify,
    pub heard_end: AtomicBool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(meter: &'a ServiceMeter, direction: Direction) -> Self {
        Self {
            meter,
            direction,
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            sent_end: AtomicBool::new(false),
            told_end: Notify::new(),
            heard_end: AtomicBool::new(false),
        }
    }

    fn touch(&self) {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(passed, Relaxed);
    }

    pub(super) fn went_out(&self, bytes: usize) {
        self.out.fetch_add(bytes as u64, Relaxed);
        self.touch();
        match self.direction {
            Direction::In => self.meter.received(bytes),
            Direction::Out => self.meter.sent(bytes),
        }
    }

    pub(super) fn came_in(&self, bytes: usize) {
        self.back.fetch_add(bytes as u64, Relaxed);
        self.touch();
        match self.direction {
            Direction::In => self.meter.sent(bytes),
            Direction::Out => self.meter.received(bytes),
        }
    }
}
