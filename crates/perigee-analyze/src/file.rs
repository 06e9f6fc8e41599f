//! Capture files, frame by frame, through one buffer.
//!
//! Formats: classic pcap in either byte order, of microseconds or nanoseconds, also in the form that Kuznetsov's patch gave its
//! records; pcapng (`blocks`); each of them compressed by gzip, xz or Zstandard (`compression`).

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use crate::blocks::Blocks;
use crate::compression;
use crate::error::AnalyzeError;
use crate::found::{word, words, Found, LARGEST, NS_PER_S};

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
    Classic(Classic),
    Blocks(Blocks),
}

/// The header of a classic file.
#[derive(Clone, Copy)]
struct Classic {
    is_little: bool,
    per_unit_ns: u64,
    /// Bytes before each packet.
    record: usize,
    link: u16,
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
        let head = first(&mut source, HEAD).map_err(unreadable)?;
        let packing = compression::of(&head);
        source = Box::new(io::Cursor::new(head).chain(source));
        if let Some(packing) = packing {
            source = compression::unpacked(packing, source);
        }
        let damaged = |error: io::Error| match packing {
            Some(packing) => wrong(&format!("its compression, {packing}, is damaged: {error}")),
            None => wrong(&error.to_string()),
        };
        let mut buffer = first(&mut source, HEAD).map_err(damaged)?;
        let (size, format) = Format::of(&buffer).map_err(|why| wrong(&why))?;
        let end = buffer.len();
        buffer.resize(BUFFER, 0);
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
    /// Recognises a file by its beginning; also the size of its header.
    fn of(head: &[u8]) -> Result<(usize, Self), String> {
        if head.starts_with(&Blocks::MAGIC) {
            return Ok((0, Self::Blocks(Blocks::default())));
        }
        let Some((_, is_little, per_unit_ns, record)) = CLASSIC.into_iter().find(|kind| head.starts_with(&kind.0))
        else {
            return Err(if head.is_empty() { "it is empty" } else { "neither begins so" }.into());
        };
        let Some(link) = word(head, 20, is_little) else { return Err("it ends within its first header".into()) };
        // The upper 16 bits may say that a frame check sequence follows each frame.
        Ok((24, Self::Classic(Classic { is_little, per_unit_ns, record, link: link as u16 })))
    }

    /// Decodes the block at the beginning of `bytes`.
    fn take(&mut self, bytes: &[u8]) -> Found {
        match self {
            Self::Classic(classic) => classic.take(bytes),
            Self::Blocks(blocks) => blocks.take(bytes),
        }
    }
}

impl Classic {
    #[inline]
    fn take(self, bytes: &[u8]) -> Found {
        let Some([seconds, units, kept, wire_bytes]) = words::<4>(bytes, self.is_little) else { return Found::Part };
        let from = self.record;
        let to = from + kept as usize;
        if kept as usize > LARGEST / 2 {
            return Found::Wrong(format!("a packet that claims to be of {kept} bytes"));
        }
        if to > bytes.len() {
            return Found::Part;
        }
        let at_ns = Some(u64::from(seconds) * NS_PER_S + u64::from(units) * self.per_unit_ns);
        Found::Frame { size: to, from, to, at_ns, interface: 0, link: self.link, wire_bytes }
    }
}

fn first(source: &mut Box<dyn Read>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.by_ref().take(bytes).read_to_end(&mut head)?;
    Ok(head)
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
/// Bytes that show what a file is.
const HEAD: u64 = 4096;
/// Classic files: the first bytes, whether the lowest byte of a number comes first, the unit of time, ns, and bytes before a packet.
const CLASSIC: [([u8; 4], bool, u64, usize); 6] = [
    ([0xd4, 0xc3, 0xb2, 0xa1], true, 1000, 16),
    ([0xa1, 0xb2, 0xc3, 0xd4], false, 1000, 16),
    ([0x4d, 0x3c, 0xb2, 0xa1], true, 1, 16),
    ([0xa1, 0xb2, 0x3c, 0x4d], false, 1, 16),
    ([0x34, 0xcd, 0xb2, 0xa1], true, 1000, 24),
    ([0xa1, 0xb2, 0xcd, 0x34], false, 1000, 24),
];
