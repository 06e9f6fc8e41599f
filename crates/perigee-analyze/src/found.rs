//! A frame or block at the beginning of a buffer, and its numbers.

/// Kind of the buffer's beginning.
pub(crate) enum Found {
    /// A frame whose bytes are at these places of `size` bytes.
    Frame {
        size: usize,
        from: usize,
        to: usize,
        at_ns: Option<u64>,
        interface: u32,
        link: u16,
        wire_bytes: u32,
    },
    /// Another block, of this many bytes.
    Other(usize),
    /// The buffer holds only a part of the block.
    Part,
    Wrong(String),
}

pub(crate) fn word(bytes: &[u8], at: usize, little: bool) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
}

pub(crate) fn words<const N: usize>(bytes: &[u8], little: bool) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (place, into) in words.iter_mut().enumerate() {
        *into = word(bytes, place * 4, little)?;
    }
    Some(words)
}

/// Largest block accepted, bytes; real frames and blocks are far smaller.
pub(crate) const LARGEST: usize = 64 << 20;
pub(crate) const NS_PER_S: u64 = 1_000_000_000;
