//! Blocks of pcapng files: any number of sections and interfaces, each with its own resolution of time.
//!
//! Only what places a packet is read; options that no reader needs may be as their writer liked, as in Wireshark. Source:
//! draft-ietf-opsawg-pcapng.

use crate::found::{word, words, Found, LARGEST, NS_PER_S};

/// A pcapng file, as far as it has been read.
#[derive(Default)]
pub(crate) struct Blocks {
    is_little: bool,
    /// Interfaces of the section.
    interfaces: Vec<Interface>,
}

/// Time resolution and offset of an interface.
#[derive(Clone, Copy)]
struct Interface {
    link: u16,
    snap: u32,
    units_per_s: u64,
    offset_s: i64,
}

impl Blocks {
    /// A file begins with a section header, the same in either byte order.
    pub(crate) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

    /// Decodes the block at the beginning of `bytes`.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Found {
        if bytes.starts_with(&Self::MAGIC) {
            match bytes.get(8..12) {
                None => return Found::Part,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => self.is_little = true,
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => self.is_little = false,
                Some(_) => return Found::Wrong("a section of no byte order".into()),
            }
        }
        let Some([kind, length]) = words::<2>(bytes, self.is_little) else { return Found::Part };
        let size = (length as usize).next_multiple_of(4);
        if !(LEAST..=LARGEST / 2).contains(&size) {
            return Found::Wrong(format!("a block that claims to be of {length} bytes"));
        }
        let Some(whole) = bytes.get(..size) else { return Found::Part };
        if word(whole, size - 4, self.is_little) != Some(length) {
            return Found::Wrong("a block whose two lengths differ".into());
        }
        let body = &whole[8..size - 4];
        match kind {
            SECTION_HEADER => self.interfaces.clear(),
            INTERFACE_DESCRIPTION => match Interface::of(body, self.is_little) {
                Some(interface) => self.interfaces.push(interface),
                None => return Found::Wrong("an interface without link type".into()),
            },
            ENHANCED_PACKET | OLD_PACKET => return self.packet(kind, body, size),
            SIMPLE_PACKET => return self.simple_packet(body, size),
            _ => {}
        }
        Found::Other(size)
    }

    #[inline]
    fn packet(&self, kind: u32, body: &[u8], size: usize) -> Found {
        let Some([interface, high, low, kept, wire_bytes]) = words::<5>(body, self.is_little) else {
            return Found::Wrong("a packet block without its header".into());
        };
        // The obsolete packet block has a 16-bit interface number, followed by a 16-bit count of drops.
        let interface = match kind {
            OLD_PACKET if self.is_little => interface & 0xffff,
            OLD_PACKET => interface >> 16,
            _ => interface,
        };
        let Some(known) = self.interfaces.get(interface as usize) else {
            return Found::Wrong(format!("a packet of interface {interface}, which is not described"));
        };
        if kept as usize > body.len() - 20 {
            return Found::Wrong("a packet longer than its block".into());
        }
        let at_ns = Some(known.nanoseconds((u64::from(high) << 32) | u64::from(low)));
        let from = HEADER + 20;
        Found::Frame { size, from, to: from + kept as usize, at_ns, interface, link: known.link, wire_bytes }
    }

    fn simple_packet(&self, body: &[u8], size: usize) -> Found {
        let (Some([wire_bytes]), Some(first)) = (words::<1>(body, self.is_little), self.interfaces.first()) else {
            return Found::Wrong("a simple packet without header or interface".into());
        };
        let snap = if first.snap == 0 { u32::MAX } else { first.snap };
        let kept = (wire_bytes.min(snap) as usize).min(body.len() - 4);
        let from = HEADER + 4;
        Found::Frame { size, from, to: from + kept, at_ns: None, interface: 0, link: first.link, wire_bytes }
    }
}

impl Interface {
    fn of(body: &[u8], is_little: bool) -> Option<Self> {
        let [link, snap] = words::<2>(body, is_little)?;
        let link = if is_little { link as u16 } else { (link >> 16) as u16 };
        let mut interface = Self { link, snap, units_per_s: 1_000_000, offset_s: 0 };
        let mut options = &body[8..];
        // The end of the options need not be marked (section 3.5).
        while let Some(head) = word(options, 0, is_little) {
            let (code, length) = if is_little { (head & 0xffff, head >> 16) } else { (head >> 16, head & 0xffff) };
            let Some(value) = options.get(4..4 + length as usize) else { break };
            match (code, value) {
                (END_OF_OPTIONS, _) => break,
                (RESOLUTION, [resolution, ..]) => {
                    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    interface.units_per_s = base.checked_pow(u32::from(resolution & 0x7f)).unwrap_or(u64::MAX);
                }
                (OFFSET, value) if value.len() >= 8 => {
                    let [first, second] = words::<2>(value, is_little)?.map(i64::from);
                    interface.offset_s = if is_little { second << 32 | first } else { first << 32 | second };
                }
                _ => {}
            }
            options = options.get(4 + (length as usize).next_multiple_of(4)..).unwrap_or_default();
        }
        Some(interface)
    }

    #[inline]
    fn nanoseconds(self, units: u64) -> u64 {
        let ns = match self.units_per_s {
            NS_PER_S => units,
            1_000_000 => units.saturating_mul(1000),
            per_s => (u128::from(units) * u128::from(NS_PER_S) / u128::from(per_s)).min(u128::from(u64::MAX)) as u64,
        };
        ns.saturating_add_signed(self.offset_s.saturating_mul(NS_PER_S as i64))
    }
}

/// Type and length of a block; with the length at its end, the least block.
const HEADER: usize = 8;
const LEAST: usize = 12;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Options of an interface.
const END_OF_OPTIONS: u32 = 0;
const RESOLUTION: u32 = 9;
const OFFSET: u32 = 14;
