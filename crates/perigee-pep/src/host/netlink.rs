//! Messages of netlink(7), as the kernel writes them.

use std::iter;

/// The messages in what was received: the type of each, and what follows its head.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let message = (half(bytes, 4)?, bytes.get(HEAD..length)?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The value of an attribute among those that follow each other.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (usize::from(half(bytes, 0)?), half(bytes, 2)?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Size of `struct nlmsghdr`.
pub(super) const HEAD: usize = 16;
