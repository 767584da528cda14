//! A buffer pool: one is taken while bytes move, and given back at once; a few are kept per thread.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::frame::format::{DATA, HEADER};

/// Kept per thread for the next who needs one.
const KEPT: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Room for one frame: its header, then its bytes.
#[derive(Debug)]
pub(crate) struct FrameBuffer(Box<[u8]>);

impl FrameBuffer {
    pub(crate) fn take() -> Self {
        let kept = FREE.with_borrow_mut(Vec::pop);
        Self(kept.unwrap_or_else(|| vec![0; HEADER + DATA].into_boxed_slice()))
    }

    /// Where the bytes go.
    pub(crate) fn body(&mut self) -> &mut [u8] {
        self.0.get_mut(HEADER..).unwrap_or_default()
    }
}

impl Deref for FrameBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for FrameBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.0);
        // A thread that is about to end keeps nothing.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < KEPT
            {
                free.push(own);
            }
        });
    }
}
