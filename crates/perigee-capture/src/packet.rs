//! An IP packet's headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is of interest of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it is from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// Size of the whole packet as its header says, bytes.
    pub bytes: u32,
    /// Its number among those of its sender (RFC 791); 0 where there is none, as in IPv6.
    pub identification: u16,
    /// What it carries.
    pub transport: Transport,
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A segment.
    Tcp(Tcp),
    /// A datagram.
    Udp {
        /// Port it is from.
        source_port: u16,
        /// Port it goes to.
        destination_port: u16,
        /// Size of its payload, bytes.
        payload: u32,
    },
    /// Anything else, fragments among it.
    Other,
}

/// A TCP segment's header (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Port it is from.
    pub source_port: u16,
    /// Port it goes to.
    pub destination_port: u16,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// The byte that is expected next, where the flag says so.
    pub acknowledgement: Option<u32>,
    /// It opens the connection.
    pub syn: bool,
    /// It closes one direction.
    pub fin: bool,
    /// It ends the connection.
    pub rst: bool,
    /// Size of its payload, bytes.
    pub payload: u32,
    /// The window as it stands there, not scaled.
    pub window: u16,
    /// What it says of its sender, where it opens the connection.
    pub opening: Opening,
    /// What it acknowledges beyond a gap.
    pub sack: Sack,
    /// Its sender's clock, and the clock of the other end that it echoes (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
}

/// What an end announces in its first segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Largest segment that it takes, options not counted.
    pub mss: Option<u16>,
    /// Powers of two by which its later windows are to be multiplied.
    pub window_scale: Option<u8>,
    /// It takes selective acknowledgements.
    pub sack_permitted: bool,
}

/// The options of a header that are of interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    sack: Sack,
    timestamps: Option<(u32, u32)>,
    opening: Opening,
}

/// Selective acknowledgements of a segment (RFC 2018): at most four blocks, each its first byte and the one after its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    blocks: [(u32, u32); 4],
    count: usize,
}

impl Sack {
    /// These blocks, at most four of them.
    pub fn of(blocks: &[(u32, u32)]) -> Self {
        let mut sack = Self::default();
        for block in blocks.iter().take(4) {
            sack.blocks[sack.count] = *block;
            sack.count += 1;
        }
        sack
    }

    /// The blocks, as they were sent.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..self.count]
    }
}

/// Reads a header's options; where they are cut off, what there is of them.
fn options(mut options: &[u8]) -> Options {
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let mut read = Options::default();
    while let Some((kind, rest)) = options.split_first() {
        if *kind == NO_OPERATION {
            options = rest;
            continue;
        }
        let length = rest.first().map_or(0, |length| usize::from(*length));
        let Some(option) = options.get(2..length).filter(|_| *kind != END_OF_OPTIONS) else { break };
        match (*kind, option.len()) {
            (SACK, _) => {
                for block in option.chunks_exact(8).take(4) {
                    read.sack.blocks[read.sack.count] = (word(block, 0), word(block, 4));
                    read.sack.count += 1;
                }
            }
            (TIMESTAMPS, 8) => read.timestamps = Some((word(option, 0), word(option, 4))),
            (MSS, 2) => read.opening.mss = Some(u16::from_be_bytes([option[0], option[1]])),
            (WINDOW_SCALE, 1) => read.opening.window_scale = Some(option[0].min(LARGEST_SCALE)),
            (SACK_PERMITTED, 0) => read.opening.sack_permitted = true,
            _ => {}
        }
        options = &options[length..];
    }
    read
}

impl Packet {
    /// Reads a packet that may have been cut off behind its headers; `None`: not IP, or cut off within them.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::read_of_length(bytes, 0)
    }

    /// The same where it is known how many `bytes_on_wire` there were: a header that says 0 is of a packet that the device
    /// was to cut into several, and too long for the field or not known when it was written.
    pub fn read_of_length(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read_v4(bytes, bytes_on_wire),
            6 => Self::read_v6(bytes, bytes_on_wire),
            _ => None,
        }
    }

    fn read_v4(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        let header = bytes.get(..20)?;
        let length = usize::from(header[0] & 15) * 4;
        let total = match u16::from_be_bytes([header[2], header[3]]) {
            0 => bytes_on_wire,
            total => total.into(),
        };
        // All but the first fragment lack the header above; the first one's length is not the datagram's.
        let fragmented = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let inside = total.checked_sub(length as u32).filter(|_| length >= 20 && !fragmented);
        let transport =
            inside.map_or(Some(Transport::Other), |inside| transport(header[9], bytes.get(length..)?, inside))?;
        let identification = u16::from_be_bytes([header[4], header[5]]);
        let (source, destination) = (address(12).into(), address(16).into());
        Some(Self { source, destination, bytes: total, identification, transport })
    }

    fn read_v6(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        let header = bytes.get(..IPV6_HEADER)?;
        let inside = match u16::from_be_bytes([header[4], header[5]]) {
            0 => bytes_on_wire.saturating_sub(IPV6_HEADER as u32),
            inside => inside.into(),
        };
        let address = |at: usize| {
            let octets: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (source, destination) = (address(8), address(24));
        let transport = transport(header[6], &bytes[IPV6_HEADER..], inside)?;
        let bytes = inside.saturating_add(IPV6_HEADER as u32);
        Some(Self { source, destination, bytes, identification: 0, transport })
    }
}

/// Reads what is inside of IP, `length` bytes on the wire.
fn transport(protocol: u8, bytes: &[u8], length: u32) -> Option<Transport> {
    let port = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    match protocol {
        TCP => {
            let (offset, flags) = (u32::from(*bytes.get(12)? >> 4) * 4, *bytes.get(13)?);
            let Options { sack, timestamps, opening } =
                options(bytes.get(20..bytes.len().min(offset as usize)).unwrap_or_default());
            Some(match length.checked_sub(offset).filter(|_| offset >= 20) {
                Some(payload) => Transport::Tcp(Tcp {
                    source_port: port(0)?,
                    destination_port: port(2)?,
                    sequence: word(4)?,
                    acknowledgement: if flags & ACK != 0 { Some(word(8)?) } else { None },
                    syn: flags & SYN != 0,
                    fin: flags & FIN != 0,
                    rst: flags & RST != 0,
                    payload,
                    window: port(14).unwrap_or_default(),
                    opening,
                    sack,
                    timestamps,
                }),
                None => Transport::Other,
            })
        }
        UDP => Some(Transport::Udp {
            source_port: port(0)?,
            destination_port: port(2)?,
            payload: length.saturating_sub(8),
        }),
        _ => Some(Transport::Other),
    }
}

const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
/// RFC 7323, 2.3.
const LARGEST_SCALE: u8 = 14;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of 100 bytes with 12 bytes of options: 1.2.3.4:80 to 5.6.7.8:9000.
    fn segment() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 152, 0, 0, 0x40, 0, 64, TCP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        packet.extend([0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x80, ACK | FIN, 0, 0, 0, 0, 0, 0]);
        packet.extend([1; 112]);
        packet
    }

    #[test]
    fn a_segment_is_read_even_where_it_is_cut_off_behind_its_header() {
        let whole = segment();
        let read = Packet::read(&whole).expect("a packet");
        let Transport::Tcp(tcp) = read.transport else { panic!("a segment") };
        assert_eq!((read.bytes, tcp.payload, tcp.sequence, tcp.acknowledgement), (152, 100, 256, Some(512)));
        assert_eq!((tcp.source_port, tcp.destination_port, tcp.fin, tcp.syn), (80, 9000, true, false));
        assert_eq!(Packet::read(&whole[..40]), Some(read));
        assert_eq!(Packet::read(&whole[..33]), None);
    }

    #[test]
    fn selective_acknowledgements_and_timestamps_are_read_among_other_options() {
        let bytes = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
        let read = options(&bytes);
        assert_eq!((read.sack.blocks(), read.timestamps), (&[(1, 2), (3, 4)][..], Some((7, 9))));
        let read = options(&bytes[..24]);
        assert_eq!((read.sack.blocks(), read.timestamps), (&[][..], Some((7, 9))));
        for strange in [&[5, 0, 1, 1][..], &[5], &[8, 3, 1], &[0, 8, 10], &[2, 3, 1], &[3, 2], &[4, 3, 1]] {
            assert_eq!(options(strange), Options::default());
        }
    }

    #[test]
    fn what_an_end_announces_is_read() {
        let opening = options(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 200]).opening;
        assert_eq!(opening, Opening { mss: Some(1460), window_scale: Some(14), sack_permitted: true });
    }

    #[test]
    fn a_length_that_the_header_lacks_is_that_on_the_wire() {
        let mut packet = segment();
        packet[2..4].copy_from_slice(&[0, 0]);
        let read = Packet::read_of_length(&packet, 64_052).expect("a packet");
        let Transport::Tcp(tcp) = read.transport else { panic!("a segment") };
        assert_eq!((read.bytes, tcp.payload), (64_052, 64_000));
    }

    #[test]
    fn fragments_and_nonsense_are_no_segments() {
        let mut fragment = segment();
        fragment[6] = 0x20;
        assert_eq!(Packet::read(&fragment).map(|p| p.transport), Some(Transport::Other));
        let mut short = segment();
        short[32] = 0x10;
        assert_eq!(Packet::read(&short).map(|p| p.transport), Some(Transport::Other));
        assert_eq!(Packet::read(&[]), None);
        assert_eq!(Packet::read(&[0; 60]), None);
    }

    #[test]
    fn a_datagram_over_ipv6_is_read() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 28, UDP, 64];
        packet.extend([9; 32]);
        packet.extend([0, 53, 1, 0, 0, 28, 0, 0]);
        packet.extend([0; 20]);
        let read = Packet::read(&packet).expect("a packet");
        assert_eq!(read.transport, Transport::Udp { source_port: 53, destination_port: 256, payload: 20 });
        assert_eq!((read.bytes, read.source), (68, IpAddr::V6(Ipv6Addr::from([9; 16]))));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..120)) {
            let _ = Packet::read(&bytes);
        }
    }
}
