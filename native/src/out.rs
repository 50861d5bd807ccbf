//! The text that is being written: where memory ends, an error instead of the end of the process.

use std::ops::Deref;

use crate::bson::{Fit, Misfit};

/// Raised as `MemoryError`.
pub const OUT_OF_MEMORY: Misfit = Misfit("out of memory");

/// Bytes that stay empty once an allocation has failed; `check` reports it.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
    has_failed: bool,
}

impl Out {
    /// The capacity is a hint: the text may turn out to need less than memory has room for.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::new();
        let _ = bytes.try_reserve_exact(capacity);
        Self { bytes, has_failed: false }
    }

    pub fn check(&self) -> Fit<()> {
        if self.has_failed {
            return Err(OUT_OF_MEMORY);
        }
        Ok(())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    #[inline]
    pub fn reserve(&mut self, more: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= more || self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        self.has_failed = self.has_failed || self.bytes.try_reserve(more).is_err();
        if self.has_failed {
            self.bytes = Vec::new();
        }
        !self.has_failed
    }

    #[inline]
    pub fn push(&mut self, byte: u8) {
        if self.reserve(1) {
            self.bytes.push(byte);
        }
    }

    #[inline]
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        if self.reserve(more.len()) {
            self.bytes.extend_from_slice(more);
        }
    }

    pub fn push_zeros(&mut self, count: usize) {
        if self.reserve(count) {
            self.bytes.resize(self.bytes.len() + count, b'0');
        }
    }

    pub fn pop(&mut self) {
        self.bytes.pop();
    }
}

impl Deref for Out {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
