//! Compares the bytes of two transfers, either of which may have been stopped early.

use sha2::{Digest as _, Sha256};

/// Received bytes, by their hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// Hash of each full block.
    blocks: Vec<[u8; 32]>,
    /// Hash of the block that is not full.
    open: Sha256,
    bytes: u64,
    /// Whether the transfer is complete.
    pub(crate) is_complete: bool,
}

impl Content {
    /// Appends bytes.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK - self.bytes % BLOCK;
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            self.open.update(now);
            self.bytes += now.len() as u64;
            if self.bytes.is_multiple_of(BLOCK) {
                self.blocks.push(self.open.finalize_reset().into());
            }
            bytes = later;
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length of the common beginning with another; `None`: they differ.
    pub(crate) fn same(&self, other: &Self) -> Option<u64> {
        let blocks = self.blocks.len().min(other.blocks.len());
        if self.blocks[..blocks] != other.blocks[..blocks] {
            return None;
        }
        let is_too_short = |one: &Self, than: &Self| one.is_complete && one.bytes < than.bytes;
        if is_too_short(self, other) || is_too_short(other, self) {
            return None;
        }
        if self.bytes != other.bytes {
            return Some(blocks as u64 * BLOCK);
        }
        (self.open.clone().finalize() == other.open.clone().finalize()).then_some(self.bytes)
    }
}

/// Block size, bytes.
const BLOCK: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8], step: usize, is_complete: bool) -> Content {
        let mut content = Content { is_complete, ..Content::default() };
        bytes.chunks(step).for_each(|part| content.add(part));
        content
    }

    #[test]
    fn what_was_stopped_early_is_compared_as_far_as_it_goes() {
        let bytes: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let all = content(&bytes, 7_001, true);
        assert_eq!(all.same(&content(&bytes, 65_536, true)), Some(200_000));
        let part = content(&bytes[..150_000], 150_000, false);
        assert_eq!((all.same(&part), part.same(&all)), (Some(2 * BLOCK), Some(2 * BLOCK)));
        // The end of the stream came too early.
        let cut = content(&bytes[..150_000], 150_000, true);
        assert_eq!((all.same(&cut), cut.same(&all)), (None, None));
        for at in [0, 65_536, 199_999] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(all.same(&content(&other, 9_000, true)), None, "{at}");
        }
    }
}
