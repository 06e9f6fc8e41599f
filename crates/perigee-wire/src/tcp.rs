//! TCP headers (RFC 9293, section 3.1), read and written.

use etherparse::{TcpHeader, TcpOptionElement, TcpOptions};

/// A TCP segment's header, and the length of its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// The byte that is expected next; `None` without the ACK flag.
    pub acknowledgement: Option<u32>,
    /// SYN: the segment opens the connection.
    pub syn: bool,
    /// FIN: the segment closes one direction.
    pub fin: bool,
    /// RST: the segment ends the connection.
    pub rst: bool,
    /// PSH: the data are to be given to the application.
    pub psh: bool,
    /// ECE: congestion was experienced (RFC 3168, section 6.1).
    pub ece: bool,
    /// CWR: the window was reduced for it.
    pub cwr: bool,
    /// Size of the payload, bytes.
    pub payload: u32,
    /// The window as it stands in the header, not scaled.
    pub window: u16,
    /// The options that a segment which opens the connection announces.
    pub opening: Opening,
    /// Selective acknowledgements.
    pub sack: Sack,
    /// The sender's clock, and the clock of the other end that it echoes (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
}

/// Options of a segment that opens a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The largest segment that the sender takes, options not counted.
    pub mss: Option<u16>,
    /// Powers of two by which the sender's later windows are to be multiplied.
    pub window_scale: Option<u8>,
    /// The sender takes selective acknowledgements.
    pub sack_permitted: bool,
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
        for block in blocks {
            sack.push(*block);
        }
        sack
    }

    /// The blocks, in the order of the header.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..self.count]
    }

    fn push(&mut self, block: (u32, u32)) {
        if let Some(free) = self.blocks.get_mut(self.count) {
            *free = block;
            self.count += 1;
        }
    }
}

impl Tcp {
    /// Reads a header that may be cut off behind its first 20 bytes; `length`: its bytes and those of its payload on the
    /// wire. `None`: cut off within those 20 bytes, or the header contradicts itself.
    ///
    /// This is not etherparse's reader: that one refuses headers with incomplete options, which captures of short
    /// snap lengths have in every packet.
    pub(crate) fn read(bytes: &[u8], length: u32) -> Option<Self> {
        let header: &[u8; 16] = bytes.first_chunk()?;
        let [source_port, destination_port, .., window] = words_of(header);
        let (offset, flags) = (u32::from(header[12] >> 4) * 4, header[13]);
        let payload = length.checked_sub(offset).filter(|_| offset >= MIN_HEADER)?;
        let mut tcp = Self {
            source_port,
            destination_port,
            sequence: word(header, 4),
            acknowledgement: (flags & ACK != 0).then(|| word(header, 8)),
            syn: flags & SYN != 0,
            fin: flags & FIN != 0,
            rst: flags & RST != 0,
            psh: flags & PSH != 0,
            ece: flags & ECE != 0,
            cwr: flags & CWR != 0,
            payload,
            window,
            ..Self::default()
        };
        tcp.read_options(bytes.get(MIN_HEADER as usize..bytes.len().min(offset as usize)).unwrap_or_default());
        Some(tcp)
    }

    /// Reads the options; of those that are cut off, what there is of them.
    ///
    /// Not etherparse's iterator: that one ends at the first option that it does not know, in front of others that it does.
    fn read_options(&mut self, mut options: &[u8]) {
        while let Some((kind, rest)) = options.split_first() {
            if *kind == NO_OPERATION {
                options = rest;
                continue;
            }
            let length = rest.first().map_or(0, |length| usize::from(*length));
            let Some(option) = options.get(2..length).filter(|_| *kind != END_OF_OPTIONS) else { break };
            match (*kind, option.len()) {
                (SACK, _) => {
                    for block in option.chunks_exact(8) {
                        self.sack.push((word(block, 0), word(block, 4)));
                    }
                }
                (TIMESTAMPS, 8) => self.timestamps = Some((word(option, 0), word(option, 4))),
                (MSS, 2) => self.opening.mss = Some(u16::from_be_bytes([option[0], option[1]])),
                (WINDOW_SCALE, 1) => self.opening.window_scale = Some(option[0].min(LARGEST_SCALE)),
                (SACK_PERMITTED, 0) => self.opening.sack_permitted = true,
                _ => {}
            }
            options = &options[length..];
        }
    }

    /// The header with a checksum of 0, of `bytes` bytes where its options leave room: the list is ended and filled up.
    pub(crate) fn header(&self, bytes: u32) -> TcpHeader {
        let mut header = TcpHeader::new(self.source_port, self.destination_port, self.sequence, self.window);
        header.acknowledgment_number = self.acknowledgement.unwrap_or_default();
        header.ack = self.acknowledgement.is_some();
        (header.syn, header.fin, header.rst) = (self.syn, self.fin, self.rst);
        (header.psh, header.ece, header.cwr) = (self.psh, self.ece, self.cwr);
        header.options = self.options();
        let mut filled = header.options.as_slice().to_vec();
        filled.resize(filled.len().max(bytes.saturating_sub(MIN_HEADER) as usize).min(MAX_OPTIONS), END_OF_OPTIONS);
        // At most 40 bytes always fit.
        let _ = header.set_options_raw(&filled);
        header
    }

    /// The options in the order and with the padding of Linux (`tcp_options_write`).
    fn options(&self) -> TcpOptions {
        use TcpOptionElement as Element;
        let mut elements = Vec::new();
        elements.extend(self.opening.mss.map(Element::MaximumSegmentSize));
        match (self.opening.sack_permitted, self.timestamps.is_some()) {
            (true, true) => elements.push(Element::SelectiveAcknowledgementPermitted),
            (false, true) => elements.extend([Element::Noop, Element::Noop]),
            (true, false) => {
                elements.extend([Element::Noop, Element::Noop, Element::SelectiveAcknowledgementPermitted]);
            }
            (false, false) => {}
        }
        elements.extend(self.timestamps.map(|(clock, echo)| Element::Timestamp(clock, echo)));
        if let Some(scale) = self.opening.window_scale {
            elements.extend([Element::Noop, Element::WindowScale(scale)]);
        }
        // A segment that opens a connection acknowledges nothing selectively; beside timestamps there is room for three blocks.
        let room = if self.timestamps.is_some() { 3 } else { 4 };
        let blocks = &self.sack.blocks()[..self.sack.count.min(room)];
        if let (Some((first, others)), true) = (blocks.split_first(), self.opening == Opening::default()) {
            let others = [0, 1, 2].map(|place| others.get(place).copied());
            elements.extend([Element::Noop, Element::Noop, Element::SelectiveAcknowledgement(*first, others)]);
        }
        TcpOptions::try_from_elements(&elements).unwrap_or_default()
    }
}

/// The 16-bit words of the beginning of a header.
fn words_of(header: &[u8; 16]) -> [u16; 8] {
    std::array::from_fn(|place| u16::from_be_bytes([header[2 * place], header[2 * place + 1]]))
}

/// The 32-bit word at a place.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes of a header without options.
pub(crate) const MIN_HEADER: u32 = 20;
const MAX_OPTIONS: usize = 40;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
/// RFC 7323, section 2.3.
const LARGEST_SCALE: u8 = 14;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    fn read_options(bytes: &[u8]) -> Tcp {
        let mut tcp = Tcp::default();
        tcp.read_options(bytes);
        tcp
    }

    #[test]
    fn selective_acknowledgements_and_timestamps_are_read_among_other_options() {
        let bytes = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
        let read = read_options(&bytes);
        assert_eq!((read.sack.blocks(), read.timestamps), (&[(1, 2), (3, 4)][..], Some((7, 9))));
        let read = read_options(&bytes[..24]);
        assert_eq!((read.sack.blocks(), read.timestamps), (&[][..], Some((7, 9))));
        for strange in [&[5, 0, 1, 1][..], &[5], &[8, 3, 1], &[0, 8, 10], &[2, 3, 1], &[3, 2], &[4, 3, 1]] {
            assert_eq!(read_options(strange), Tcp::default());
        }
    }

    #[test]
    fn options_of_an_opening_segment_are_read_behind_one_that_is_not_known() {
        let read = read_options(&[254, 4, 9, 9, 2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 200]);
        assert_eq!(read.opening, Opening { mss: Some(1460), window_scale: Some(14), sack_permitted: true });
        assert_eq!(read.timestamps, Some((7, 0)));
    }

    #[test]
    fn options_of_an_opening_segment_are_written_as_linux_writes_them() {
        let opening = Opening { mss: Some(1460), window_scale: Some(9), sack_permitted: true };
        let all = Tcp { syn: true, opening, timestamps: Some((7, 0)), ..Tcp::default() };
        let plain = Opening { sack_permitted: false, ..opening };
        for (tcp, expected) in [
            (all, &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 9][..]),
            (Tcp { timestamps: None, ..all }, &[2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 9]),
            (Tcp { opening: plain, ..all }, &[2, 4, 5, 0xb4, 1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 9]),
            (Tcp { opening: plain, timestamps: None, ..all }, &[2, 4, 5, 0xb4, 1, 3, 3, 9]),
        ] {
            assert_eq!(tcp.options().as_slice(), expected);
            // The rest of a longer header is the end of the list.
            assert_eq!(tcp.header(60).options.as_slice(), [expected, &vec![0; 40 - expected.len()]].concat());
        }
    }
}
