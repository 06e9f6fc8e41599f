//! Segmentation and joining of TCP segments, as a network card does it.
//!
//! The kernel hands over a train of segments at once, and leaves their headers and checksums to the device: [`Departing`] makes
//! packets of it. In the other direction, [`Joined`] makes one of consecutive segments, as generic receive offload does.
//! Headers are read at their fixed places, as those of [`crate::HopFields`].

use etherparse::checksum::Sum16BitWords;

/// Offload that is left to do for a packet: the fields of the kernel's `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the checksum begins and, from there, where it belongs; there is a sum of the pseudo-header by then.
    pub checksum: Option<(u16, u16)>,
    /// The payload of each of the TCP segments in it.
    pub segment: Option<u16>,
}

/// A packet from the kernel, and how much of it has been made packets of the wire.
#[derive(Debug)]
pub struct Departing {
    bytes: Box<[u8]>,
    length: usize,
    offload: Offload,
    /// How much of a train's payload has left.
    next: usize,
    /// How many segments of it have left.
    count: u16,
}

impl Default for Departing {
    fn default() -> Self {
        Self { bytes: vec![0; LARGEST].into(), length: 0, offload: Offload::default(), next: 0, count: 0 }
    }
}

impl Departing {
    /// Whether nothing of it is left.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Room for a packet of the kernel's; [`Departing::begin`] says how much of it is used.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Begins with a packet of this length.
    pub fn begin(&mut self, length: usize, offload: Offload) {
        (self.length, self.offload, self.next, self.count) = (length, offload, 0, 0);
    }

    /// Writes the next packet of the wire and returns its length; `None`: nothing is left. What does not fit into `out`, or is
    /// no train of TCP's although it says so, is lost, as a link drops what is larger than its MTU.
    pub fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        while !self.is_empty() {
            let written = match self.offload.segment {
                Some(payload) => self.segment(payload, out),
                None => self.whole(out),
            };
            if written.is_some() {
                return written;
            }
        }
        None
    }

    fn whole(&mut self, out: &mut [u8]) -> Option<usize> {
        let packet = &mut self.bytes[..std::mem::take(&mut self.length)];
        if let Some((start, offset)) = self.offload.checksum {
            complete(packet, start.into(), offset.into())?;
        }
        out.get_mut(..packet.len())?.copy_from_slice(packet);
        Some(packet.len())
    }

    fn segment(&mut self, payload: u16, out: &mut [u8]) -> Option<usize> {
        let whole = &self.bytes[..self.length];
        let Some(headers) = Headers::read(whole).filter(|_| payload > 0) else {
            self.length = 0;
            return None;
        };
        let from = headers.length + self.next;
        let to = whole.len().min(from + usize::from(payload));
        let (is_first, is_last) = (self.next == 0, to == whole.len());
        let size = headers.length + to - from;
        let done = out.get_mut(..size).map(|out| {
            out[..headers.length].copy_from_slice(&whole[..headers.length]);
            out[headers.length..].copy_from_slice(&whole[from..to]);
            headers.write_size(out, self.count);
            let sequence = headers.sequence(whole).wrapping_add(self.next as u32);
            out[headers.tcp + 4..headers.tcp + 8].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut out[headers.tcp + FLAGS];
            *flags &= !(if is_last { 0 } else { FIN | PSH } | if is_first { 0 } else { CWR });
            headers.write_pseudo_sum(out);
            complete(out, headers.tcp, CHECKSUM);
            size
        });
        self.next += usize::from(payload);
        self.count = self.count.wrapping_add(1);
        if is_last {
            self.length = 0;
        }
        done
    }
}

/// Segments that follow another one of their connection without a gap, joined.
///
/// The first of all is not among them: a receiver takes its own measure of the memory that a segment needs by the first of full size.
#[derive(Debug, Default)]
pub struct Joined {
    /// The joined payload; before that, the headers of the segment that they follow.
    bytes: Vec<u8>,
    /// Segments in it.
    count: usize,
    /// Payload of each but the last.
    payload: usize,
    /// The sequence number that follows; `None`: nothing may follow.
    next: Option<u32>,
}

impl Joined {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of segments in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Begins behind a packet, which is not part of it.
    pub fn follow(&mut self, packet: &[u8]) {
        self.count = 0;
        self.bytes.clear();
        let headers = Headers::read(packet).filter(|headers| headers.may_be_joined(packet));
        self.next = headers.and_then(|headers| {
            self.bytes.extend_from_slice(&packet[..headers.length]);
            self.payload = packet.len() - headers.length;
            let next = headers.sequence(packet).wrapping_add(self.payload as u32);
            (headers.flags(packet) & PSH == 0).then_some(next)
        });
    }

    /// Adds a packet of the wire; false if it doesn't follow what is there.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let Some(next) = self.next else { return false };
        let headers = Headers::read(packet).filter(|headers| headers.may_be_joined(packet));
        let Some(headers) = headers.filter(|headers| headers.continues(&self.bytes, packet)) else { return false };
        let payload = packet.len() - headers.length;
        if headers.sequence(packet) != next || payload > self.payload || self.bytes.len() + payload > LARGEST {
            return false;
        }
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.extend_from_slice(packet);
        } else {
            self.bytes.extend_from_slice(&packet[headers.length..]);
        }
        let flags = headers.flags(packet);
        self.bytes[headers.tcp + FLAGS] = flags;
        self.count += 1;
        let is_last = payload < self.payload || flags & PSH != 0;
        self.next = (!is_last).then_some(next.wrapping_add(payload as u32));
        true
    }

    /// Takes out what is in it: a packet, and what the kernel still has to know about it. Nothing follows it.
    pub fn take(&mut self) -> Option<(Offload, &[u8])> {
        self.next = None;
        let count = std::mem::take(&mut self.count);
        let Some(headers) = Headers::read(&self.bytes).filter(|_| count > 1) else {
            return (count > 0).then_some((Offload::default(), &self.bytes));
        };
        headers.write_size(&mut self.bytes, 0);
        headers.write_pseudo_sum(&mut self.bytes);
        let offload =
            Offload { checksum: Some((headers.tcp as u16, CHECKSUM as u16)), segment: Some(self.payload as u16) };
        Some((offload, &self.bytes))
    }
}

/// Where the headers of a TCP segment are. Without options of IPv4, extensions of IPv6 and fragments, which neither trains of the
/// kernel nor segments to be joined have.
#[derive(Clone, Copy, Debug)]
struct Headers {
    is_v4: bool,
    /// Where TCP's header begins.
    tcp: usize,
    /// The size of both headers.
    length: usize,
}

impl Headers {
    fn read(packet: &[u8]) -> Option<Self> {
        let (is_v4, tcp, protocol) = match packet.first()? {
            0x45 => (true, 20, *packet.get(9)?),
            0x60..=0x6f => (false, 40, *packet.get(6)?),
            _ => return None,
        };
        let length = tcp + usize::from(packet.get(tcp + 12)? >> 4) * 4;
        let is_fragment = is_v4 && (packet[6] & 0x3f, packet[7]) != (0, 0);
        (protocol == TCP && !is_fragment && length >= tcp + 20 && length <= packet.len()).then_some(Self {
            is_v4,
            tcp,
            length,
        })
    }

    fn flags(self, packet: &[u8]) -> u8 {
        packet[self.tcp + FLAGS]
    }

    fn sequence(self, packet: &[u8]) -> u32 {
        let at = self.tcp + 4;
        u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
    }

    /// Whether it is data without another purpose, and ends where its header says.
    fn may_be_joined(self, packet: &[u8]) -> bool {
        let size = if self.is_v4 {
            u16::from_be_bytes([packet[2], packet[3]]).into()
        } else {
            self.tcp + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
        };
        size == packet.len() && packet.len() > self.length && self.flags(packet) & !PSH == ACK
    }

    /// Whether a segment has the headers of another one but for its place.
    fn continues(self, other: &[u8], packet: &[u8]) -> bool {
        let same = |from: usize, to: usize| other.get(from..to) == Some(&packet[from..to]);
        // All but the size, the identification and the checksum.
        let ip = if self.is_v4 { same(0, 2) && same(6, 10) && same(12, 20) } else { same(0, 4) && same(6, 40) };
        let tcp = self.tcp;
        // All but the sequence number, PSH and the checksum.
        let is_same = ip && same(tcp, tcp + 4) && same(tcp + 8, tcp + FLAGS) && same(tcp + 14, tcp + CHECKSUM);
        is_same && same(tcp + CHECKSUM + 2, self.length)
    }

    /// Writes the IP header of a packet of its size, the `number`th of a train.
    fn write_size(self, packet: &mut [u8], number: u16) {
        let size = packet.len();
        if !self.is_v4 {
            packet[4..6].copy_from_slice(&((size - self.tcp) as u16).to_be_bytes());
            return;
        }
        packet[2..4].copy_from_slice(&(size as u16).to_be_bytes());
        let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(number);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[10..12].fill(0);
        let sum = Sum16BitWords::new().add_slice(&packet[..self.tcp]).ones_complement();
        packet[10..12].copy_from_slice(&sum.to_ne_bytes());
    }

    /// Writes the sum of the pseudo-header in place of TCP's checksum (RFC 9293, section 3.1; RFC 8200, section 8.1).
    fn write_pseudo_sum(self, packet: &mut [u8]) {
        let addresses = if self.is_v4 { 12..20 } else { 8..40 };
        let length = ((packet.len() - self.tcp) as u32).to_be_bytes();
        let mut sum = Sum16BitWords::new().add_slice(&packet[addresses]).add_2bytes([0, TCP]);
        let sum = !sum.add_4bytes(length).ones_complement();
        packet[self.tcp + CHECKSUM..self.tcp + CHECKSUM + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}

/// Completes a checksum: the sum of the pseudo-header is in its place.
fn complete(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let sum = Sum16BitWords::new().add_slice(packet.get(start..)?);
    // 0 says that a datagram has none; to TCP both are the same.
    let checksum = sum.to_ones_complement_with_no_zero();
    packet.get_mut(start + offset..start + offset + 2)?.copy_from_slice(&checksum.to_ne_bytes());
    Some(())
}

const TCP: u8 = 6;
/// Largest IP packet with its headers, bytes.
const LARGEST: usize = 65_535;
/// Where the checksum and the flags are in TCP's header.
const CHECKSUM: usize = 16;
const FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
