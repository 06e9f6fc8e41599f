//! Capture files, read frame by frame through one buffer.
//!
//! Formats: classic pcap in either byte order, of microseconds or nanoseconds; pcapng with any number of sections and
//! interfaces, each with its own resolution of time; either of them compressed by gzip. `pcap-file` knows the blocks;
//! this module reads times and snap lengths from its raw blocks, since the crate takes every time for nanoseconds and
//! rejects some snap lengths.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::PcapNgParser;
use pcap_file::{PcapError, TsResolution};

use crate::error::AnalyzeError;

/// A capture file, read sequentially.
pub(crate) struct Capture {
    source: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of the buffer's `start` in the decompressed file, bytes.
    offset: u64,
    format: Format,
    /// Bytes read of the stored (perhaps compressed) file.
    read: Rc<Cell<u64>>,
}

/// A packet as an interface captured it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Nanoseconds since 1970; `None` if the file has no time for it.
    pub(crate) at_ns: Option<u64>,
    /// Number of the interface.
    pub(crate) interface: u32,
    /// Link type.
    pub(crate) link: u16,
    /// Captured bytes.
    pub(crate) bytes: &'a [u8],
    /// Length on the wire, bytes.
    pub(crate) wire_bytes: u32,
}

/// Position and cause of an error that ended reading before the end of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Byte in the (decompressed) file.
    pub offset: u64,
    /// Cause.
    pub why: String,
}

enum Format {
    Classic { parser: PcapParser, link: u16, per_unit_ns: u64 },
    Blocks { parser: PcapNgParser, clocks: Vec<Clock> },
}

/// Time resolution and offset of a pcapng interface.
#[derive(Clone, Copy, Debug)]
struct Clock {
    link: u16,
    snap: u32,
    units_per_s: u64,
    offset_s: i64,
}

/// Kind of block at the beginning of the buffer.
enum Found {
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

impl Capture {
    /// Opens a file.
    pub(crate) fn open(path: &Path, shown: &str) -> Result<Self, AnalyzeError> {
        let unreadable = |error| AnalyzeError::Unreadable { file: shown.to_owned(), error };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(AnalyzeError::NotACapture { file: shown.to_owned(), why: "it is a folder".into() });
        }
        Self::new(Box::new(file), shown)
    }

    /// Reads a capture from any source of bytes.
    pub(crate) fn new(source: Box<dyn Read>, shown: &str) -> Result<Self, AnalyzeError> {
        let unreadable = |error| AnalyzeError::Unreadable { file: shown.to_owned(), error };
        let wrong = |why: &str| AnalyzeError::NotACapture { file: shown.to_owned(), why: why.to_owned() };
        let read = Rc::new(Cell::new(0));
        let mut source: Box<dyn Read> = Box::new(Counted { source, read: read.clone() });
        let mut head = first(&mut source, 4).map_err(unreadable)?;
        if head.starts_with(&GZIP) {
            source = Box::new(MultiGzDecoder::new(io::Cursor::new(head).chain(source)));
            head = first(&mut source, 4).map_err(|error| wrong(&format!("its compression is damaged: {error}")))?;
        }
        let is_blocks = head == SECTION;
        if !is_blocks && !CLASSIC.contains(&&head[..]) {
            let empty = head.is_empty();
            return Err(wrong(if empty { "it is empty" } else { "neither begins so" }));
        }
        let mut buffer = head;
        let (size, format) = loop {
            match begin(&buffer, is_blocks) {
                Ok(begun) => break begun,
                Err(PcapError::IncompleteBuffer) if buffer.len() < LARGEST => {
                    let more = first(&mut source, HEAD).map_err(|error| wrong(&error.to_string()))?;
                    if more.is_empty() {
                        return Err(wrong("it ends within its first header"));
                    }
                    buffer.extend(more);
                }
                Err(error) => return Err(wrong(&said(&error))),
            }
        };
        let end = buffer.len();
        buffer.resize(BUFFER.max(end), 0);
        Ok(Self { source, buffer, start: size, end, offset: size as u64, format, read })
    }

    /// Returns the next frame; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        loop {
            let found = self.format.take(&self.buffer[self.start..self.end]);
            match found {
                Found::Frame { size, from, to, at_ns, interface, link, wire_bytes } => {
                    let (from, to) = (self.start + from, self.start + to);
                    self.skip(size);
                    let bytes = &self.buffer[from..to];
                    return Ok(Some(Frame { at_ns, interface, link, bytes, wire_bytes }));
                }
                Found::Other(size) => self.skip(size),
                Found::Part => match self.fill() {
                    Ok(true) => {}
                    Ok(false) if self.start == self.end => return Ok(None),
                    Ok(false) => return Err(self.broken("the file ends within a packet".into())),
                    Err(why) => return Err(self.broken(why)),
                },
                Found::Wrong(why) => return Err(self.broken(why)),
            }
        }
    }

    /// Bytes read so far of the stored (perhaps compressed) file.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    fn skip(&mut self, size: usize) {
        self.start += size;
        self.offset += size as u64;
    }

    fn broken(&self, why: String) -> Broken {
        Broken { offset: self.offset, why }
    }

    /// Appends more bytes to the buffer; returns false at the end of the file.
    fn fill(&mut self) -> Result<bool, String> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            if self.buffer.len() >= LARGEST {
                return Err(format!("a packet of more than {} MiB", LARGEST >> 20));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Format {
    /// Decodes the block at the beginning of `bytes`.
    fn take(&mut self, bytes: &[u8]) -> Found {
        match self {
            Self::Classic { parser, link, per_unit_ns } => take_classic(parser, *link, *per_unit_ns, bytes),
            Self::Blocks { parser, clocks } => take_block(parser, clocks, bytes),
        }
    }
}

#[inline]
fn take_classic(parser: &PcapParser, link: u16, per_unit_ns: u64, bytes: &[u8]) -> Found {
    let little = parser.header().endianness.is_little();
    if let Some(kept) = word(bytes, 8, little).filter(|kept| *kept as usize > LARGEST / 2) {
        return Found::Wrong(format!("a packet that claims to be of {kept} bytes"));
    }
    match parser.next_raw_packet(bytes) {
        Ok((rest, packet)) => {
            let size = bytes.len() - rest.len();
            let at_ns = Some(u64::from(packet.ts_sec) * NS_PER_S + u64::from(packet.ts_frac) * per_unit_ns);
            let from = size - packet.data.len();
            Found::Frame { size, from, to: size, at_ns, interface: 0, link, wire_bytes: packet.orig_len }
        }
        Err(PcapError::IncompleteBuffer) => Found::Part,
        Err(error) => Found::Wrong(said(&error)),
    }
}

#[inline]
fn take_block(parser: &mut PcapNgParser, clocks: &mut Vec<Clock>, bytes: &[u8]) -> Found {
    let (size, kind, body) = match parser.next_raw_block(bytes) {
        Ok((rest, block)) => (bytes.len() - rest.len(), block.type_, 8..8 + block.body.len()),
        Err(PcapError::IncompleteBuffer) => {
            let little = parser.section().endianness.is_little();
            let known = word(bytes, 4, little).filter(|_| bytes.get(..4) != Some(&SECTION));
            return match known.filter(|length| *length as usize > LARGEST / 2) {
                Some(length) => Found::Wrong(format!("a block that claims to be of {length} bytes")),
                None => Found::Part,
            };
        }
        Err(error) => return Found::Wrong(said(&error)),
    };
    let little = parser.section().endianness.is_little();
    let body_bytes = &bytes[body.clone()];
    match kind {
        SECTION_HEADER | INTERFACE_DESCRIPTION => {
            *clocks = parser.interfaces().iter().map(Clock::of).collect();
            Found::Other(size)
        }
        ENHANCED_PACKET | OLD_PACKET => {
            let Some(words) = words::<5>(body_bytes, little) else {
                return Found::Wrong("a packet block without its header".into());
            };
            let [interface, high, low, kept, wire_bytes] = words;
            // The obsolete packet block has a 16-bit interface number, followed by a 16-bit count of drops.
            let interface = match kind {
                OLD_PACKET if little => interface & 0xffff,
                OLD_PACKET => interface >> 16,
                _ => interface,
            };
            let Some(clock) = clocks.get(interface as usize) else {
                return Found::Wrong(format!("a packet of interface {interface}, which is not described"));
            };
            if kept as usize > body_bytes.len() - 20 {
                return Found::Wrong("a packet longer than its block".into());
            }
            let at_ns = Some(clock.nanoseconds((u64::from(high) << 32) | u64::from(low)));
            let from = body.start + 20;
            let to = from + kept as usize;
            Found::Frame { size, from, to, at_ns, interface, link: clock.link, wire_bytes }
        }
        SIMPLE_PACKET => {
            let (Some([wire_bytes]), Some(clock)) = (words::<1>(body_bytes, little), clocks.first()) else {
                return Found::Wrong("a simple packet without header or interface".into());
            };
            let snap = if clock.snap == 0 { u32::MAX } else { clock.snap };
            let kept = (wire_bytes.min(snap) as usize).min(body_bytes.len() - 4);
            let from = body.start + 4;
            Found::Frame { size, from, to: from + kept, at_ns: None, interface: 0, link: clock.link, wire_bytes }
        }
        _ => Found::Other(size),
    }
}

impl Clock {
    fn of(interface: &InterfaceDescriptionBlock<'_>) -> Self {
        let (mut units_per_s, mut offset_s) = (1_000_000, 0);
        for option in &interface.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    let exponent = u32::from(resolution & 0x7f);
                    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    units_per_s = base.checked_pow(exponent).unwrap_or(u64::MAX);
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => offset_s = *seconds as i64,
                _ => {}
            }
        }
        let link = u32::from(interface.linktype) as u16;
        Self { link, snap: interface.snaplen, units_per_s, offset_s }
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

/// Decodes the header of a file: its length and the format of what follows.
fn begin(bytes: &[u8], is_blocks: bool) -> Result<(usize, Format), PcapError> {
    if is_blocks {
        let (rest, parser) = PcapNgParser::new(bytes)?;
        return Ok((bytes.len() - rest.len(), Format::Blocks { parser, clocks: Vec::new() }));
    }
    let (rest, parser) = PcapParser::new(bytes)?;
    let header = parser.header();
    let per_unit_ns = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1000 };
    // The upper 16 bits may say that a frame check sequence follows each frame.
    let link = u32::from(header.datalink) as u16;
    Ok((bytes.len() - rest.len(), Format::Classic { parser, link, per_unit_ns }))
}

fn first(source: &mut Box<dyn Read>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.by_ref().take(bytes).read_to_end(&mut head)?;
    Ok(head)
}

fn said(error: &PcapError) -> String {
    match error {
        PcapError::InvalidField(what) => (*what).to_owned(),
        error => error.to_string(),
    }
}

fn word(bytes: &[u8], at: usize, little: bool) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
}

fn words<const N: usize>(bytes: &[u8], little: bool) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (place, into) in words.iter_mut().enumerate() {
        *into = word(bytes, place * 4, little)?;
    }
    Some(words)
}

/// Counts the bytes read through it.
struct Counted {
    source: Box<dyn Read>,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

const BUFFER: usize = 1 << 20;
/// Bytes of the header read at a time.
const HEAD: u64 = 4096;
/// Largest block accepted, bytes; real frames and blocks are far smaller.
const LARGEST: usize = 64 << 20;
const NS_PER_S: u64 = 1_000_000_000;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const CLASSIC: [&[u8]; 4] =
    [&[0xd4, 0xc3, 0xb2, 0xa1], &[0xa1, 0xb2, 0xc3, 0xd4], &[0x4d, 0x3c, 0xb2, 0xa1], &[0xa1, 0xb2, 0x3c, 0x4d]];
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
