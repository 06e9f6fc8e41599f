//! A hash that is the same on every machine and in every version.

use std::fmt;

/// FNV-1a of 64 bits (Fowler, Noll, Vo), of bytes in order. It finds changes and spreads keys; it resists nobody who
/// looks for collisions.
///
/// ```
/// assert_eq!(perigee_units::fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut hash = Fnv::default();
    hash.update(bytes);
    hash.value()
}

/// The hash of what has come so far.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn update(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.0 = bytes.into_iter().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    }

    pub(crate) const fn value(&self) -> u64 {
        self.0
    }
}

impl Default for Fnv {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text.bytes());
        Ok(())
    }
}

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
