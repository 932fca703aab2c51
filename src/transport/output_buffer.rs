//! Output that is kept up to a cap: all of it or an error, or only its tail.

/// Which part of an output stream to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputLimit {
    /// Everything; more bytes than this are an error.
    All(usize),
    /// The last bytes.
    Tail(usize),
}

/// The kept bytes of a stream.
pub(super) struct OutputBuffer {
    keep: OutputLimit,
    bytes: Vec<u8>,
    dropped: u64,
}

impl OutputBuffer {
    pub(super) fn new(keep: OutputLimit) -> Self {
        Self { keep, bytes: Vec::new(), dropped: 0 }
    }

    /// Appends `bytes`; returns false if they exceed the cap.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        match self.keep {
            OutputLimit::All(cap) if self.bytes.len() + bytes.len() > cap => return false,
            OutputLimit::Tail(cap) if self.bytes.len() + bytes.len() > 2 * cap => {
                self.trim_to(cap.saturating_sub(bytes.len()))
            }
            _ => {}
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    fn trim_to(&mut self, cap: usize) {
        let excess = self.bytes.len().saturating_sub(cap);
        self.bytes.drain(..excess);
        self.dropped += excess as u64;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the kept bytes and the number of bytes dropped before them.
    pub(super) fn take_bytes(&mut self) -> (Vec<u8>, u64) {
        if let OutputLimit::Tail(cap) = self.keep {
            self.trim_to(cap);
        }
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_bytes_and_counts_the_rest() {
        let mut kept = OutputBuffer::new(OutputLimit::Tail(4));
        for part in ["abc", "defghijklmnop", "q", "rs"] {
            assert!(kept.push(part.as_bytes()));
        }
        assert_eq!(kept.take_bytes(), (b"pqrs".to_vec(), 15));
    }

    #[test]
    fn push_beyond_the_limit_is_refused() {
        let mut kept = OutputBuffer::new(OutputLimit::All(4));
        assert!(kept.push(b"abcd"));
        assert!(!kept.push(b"e"));
        assert_eq!(kept.take_bytes(), (b"abcd".to_vec(), 0));
    }
}
