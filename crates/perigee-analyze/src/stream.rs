//! The packets of a capture, one after the other, through all of its files.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use perigee_units::Time;
use perigee_wire::Packet;

use crate::clock::Clock;
use crate::error::AnalyzeError;
use crate::file::{Broken, Capture};
use crate::fragments::Fragments;
use crate::frame::{inside, Inside};
use crate::key::Key;
use crate::tunnel::{carried, Carried};

/// A capture's files, in order: one, or the parts that a long capture was cut into.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in messages and results.
    pub name: String,
    /// Its files.
    pub parts: Vec<Part>,
}

/// One file of a capture.
#[derive(Clone, Debug)]
pub enum Part {
    /// On the disk.
    File(PathBuf),
    /// In memory.
    Bytes(Arc<[u8]>),
}

impl Part {
    /// Its size; 0 where it cannot be read.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File(path) => path.metadata().map_or(0, |about| about.len()),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Opens it; also the name that it has in messages.
    fn open(&self, capture: &str) -> Result<(Capture, String), AnalyzeError> {
        let shown = match self {
            Self::File(path) => path.display().to_string(),
            Self::Bytes(_) => capture.to_owned(),
        };
        let opened = match self {
            Self::File(path) => Capture::open(path, &shown)?,
            Self::Bytes(bytes) => Capture::new(Box::new(Cursor::new(bytes.clone())), &shown)?,
        };
        Ok((opened, shown))
    }
}

/// A packet with its place in the capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Its number in the capture, from 0; packets of other protocols count too.
    pub(crate) number: u64,
    pub(crate) now: Time,
    /// Nanoseconds since 1970, as the file says.
    pub(crate) at_ns: u64,
    /// The view on it: interface, device and direction.
    pub(crate) view: u32,
    pub(crate) key: Key,
    /// The way it goes between the ends of `key`.
    pub(crate) way: usize,
    pub(crate) packet: Packet,
}

/// Counts over all files.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Frames without IP.
    pub not_ip: u64,
    /// IP packets that are neither TCP nor UDP, or cut off within their headers, and fragments but the last that came of a packet.
    pub other: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Fragments that were put together.
    pub joined_fragments: u64,
    /// Packets inside of others, or behind labels, by the name of each tunnel or label.
    pub tunnelled: BTreeMap<&'static str, u64>,
    /// Packets of a tunnel of which too little was captured.
    pub tunnelled_cut_off: u64,
    /// Packets of which too little was captured, and the most bytes that were.
    pub cut_off: (u64, usize),
    /// Frames of a link type that is not known, and the last such type.
    pub unknown_link: Option<(u64, u16)>,
    /// Files that could not be read to their end, by name.
    pub broken: Vec<(String, Broken)>,
    /// Times of packets that stood behind later ones.
    pub disordered: u64,
    /// Jumps of the clock.
    pub clock_jumps: u64,
    /// The first packet, nanoseconds since 1970.
    pub first_ns: u64,
    /// From the first packet to the last.
    pub length: Time,
}

/// Receives the bytes read so far; returns whether to go on.
pub(crate) type Watch<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// The packets.
pub(crate) struct Stream {
    parts: std::vec::IntoIter<Part>,
    name: String,
    capture: Capture,
    shown: String,
    /// Bytes of the files before this one.
    done: u64,
    clock: Clock,
    fragments: Fragments,
    counts: Counts,
}

impl Stream {
    pub(crate) fn open(source: &Source) -> Result<Self, AnalyzeError> {
        let mut parts = source.parts.clone().into_iter();
        let first = parts.next().unwrap_or_else(|| Part::Bytes(Arc::default()));
        let (capture, shown) = first.open(&source.name)?;
        let (name, clock, counts) = (source.name.clone(), Clock::default(), Counts::default());
        Ok(Self { parts, name, capture, shown, done: 0, clock, fragments: Fragments::default(), counts })
    }

    /// The next packet of TCP or UDP; `None` behind the last.
    pub(crate) fn next(&mut self, watch: &mut Watch<'_>) -> Result<Option<Item>, AnalyzeError> {
        loop {
            let frame = match self.capture.next() {
                Ok(Some(frame)) => frame,
                ended => {
                    self.counts.broken.extend(ended.err().map(|broken| (self.shown.clone(), broken)));
                    if self.next_part()? {
                        continue;
                    }
                    return Ok(None);
                }
            };
            let number = self.counts.frames;
            self.counts.frames += 1;
            let now = self.clock.time(frame.at_ns);
            let is_cut = frame.bytes.len() < frame.wire_bytes as usize;
            let found = match inside(frame.link, frame.bytes) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.counts.not_ip += 1;
                    continue;
                }
                Err(link) => {
                    self.counts.unknown_link = Some((self.counts.unknown_link.map_or(0, |(n, _)| n) + 1, link));
                    continue;
                }
            };
            let at_ns = frame.at_ns.unwrap_or_default();
            let view = frame.interface.wrapping_mul(VIEWS) | (found.view & (VIEWS - 1));
            let captured = frame.bytes.len();
            let read =
                Reading { fragments: &mut self.fragments, counts: &mut self.counts }.read(found, frame.wire_bytes, 0);
            if is_cut && matches!(read, Err(Unread::CutOff)) {
                self.counts.cut_off = (self.counts.cut_off.0 + 1, self.counts.cut_off.1.max(captured));
            }
            let ask = number.is_multiple_of(ASK_EVERY);
            if ask && watch(self.done + self.capture.bytes_read()).is_break() {
                return Err(AnalyzeError::Cancelled);
            }
            let Some((packet, (key, way))) = read.ok().and_then(|packet| Some((packet, Key::of(&packet)?))) else {
                self.counts.other += 1;
                continue;
            };
            return Ok(Some(Item { number, now, at_ns, view, key, way, packet }));
        }
    }

    /// The counts, once all is read.
    pub(crate) fn into_counts(self) -> Counts {
        let clock = self.clock;
        Counts {
            disordered: clock.disordered,
            clock_jumps: clock.jumps,
            first_ns: clock.first_ns(),
            length: clock.last(),
            ..self.counts
        }
    }

    fn next_part(&mut self) -> Result<bool, AnalyzeError> {
        let Some(part) = self.parts.next() else { return Ok(false) };
        self.done += self.capture.bytes_read();
        (self.capture, self.shown) = part.open(&self.name)?;
        Ok(true)
    }
}

/// Why a packet is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// Too little of it was captured, or it is broken.
    CutOff,
    /// The rest of it is still to come.
    Fragment,
}

/// The packet in a frame: put together where it was cut into fragments, and what it carries where it is a tunnel's.
struct Reading<'a> {
    fragments: &'a mut Fragments,
    counts: &'a mut Counts,
}

impl Reading<'_> {
    /// Reads a packet within `depth` others; `size`: bytes from the frame's beginning to its end.
    #[inline]
    fn read(&mut self, found: Inside<'_>, size: u32, depth: u32) -> Result<Packet, Unread> {
        let size = size.saturating_sub(found.before);
        let packet = if Fragments::has(found.packet) {
            self.counts.fragments += 1;
            let (head, count) = self.fragments.take(found.packet).ok_or(Unread::Fragment)?;
            self.counts.joined_fragments += count;
            self.within(&head, size, depth)
        } else {
            self.within(found.packet, size, depth)
        }?;
        if !found.carriers.is_empty() {
            for name in found.carriers.names() {
                *self.counts.tunnelled.entry(name).or_default() += 1;
            }
        }
        Ok(packet)
    }

    #[inline]
    fn within(&mut self, bytes: &[u8], size: u32, depth: u32) -> Result<Packet, Unread> {
        let carried = if depth < MOST_NESTED { carried(bytes, size) } else { None };
        let inner = match carried {
            None => return Packet::read_of_length(bytes, size).ok_or(Unread::CutOff),
            Some(Carried::Packet(inside)) => self.read(inside, size, depth + 1),
            Some(Carried::CutOff) => Err(Unread::CutOff),
        };
        if inner != Err(Unread::CutOff) {
            return inner;
        }
        self.counts.tunnelled_cut_off += 1;
        Packet::read_of_length(bytes, size).ok_or(Unread::CutOff)
    }
}

/// Tunnels in tunnels that are entered.
const MOST_NESTED: u32 = 4;
const ASK_EVERY: u64 = 1 << 15;
/// Views of a host within one interface of a file.
const VIEWS: u32 = 1 << 12;
