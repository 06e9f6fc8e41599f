//! Serial numbers: counters that headers carry cut to 32 bits (RFC 1982; TCP's sequence numbers, RFC 9293, section 3.4).

/// The position nearest to `near` of which `number` is the last 32 bits; `None` where that lies before the beginning.
///
/// ```
/// use perigee_units::nearest_position;
/// assert_eq!(nearest_position(5, u64::from(u32::MAX) - 10), Some((1 << 32) + 5));
/// assert_eq!(nearest_position(u32::MAX, (1 << 32) + 10), Some(u64::from(u32::MAX)));
/// assert_eq!(nearest_position(u32::MAX, 10), None);
/// ```
#[inline]
pub const fn nearest_position(number: u32, near: u64) -> Option<u64> {
    let difference = number.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(difference as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_position_comes_back_from_its_last_32_bits(position in 0u64..1 << 50, ahead in i32::MIN..i32::MAX) {
            if let Some(near) = position.checked_add_signed(i64::from(ahead)) {
                proptest::prop_assert_eq!(nearest_position(position as u32, near), Some(position));
            }
        }
    }
}
