//! Writes the packets of nodes to capture files, without ever blocking the driver.
//!
//! As in the simulator, each link of a node is an interface, and packets are captured when they arrive over a link and
//! when they enter one, before its queue. A writing thread receives them through a bounded buffer; packets that do not
//! fit are dropped and counted. A file appears at the end of a run, complete or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use perigee_results::GapRow;
use perigee_study::{LinkAt, Scenario};
use perigee_units::Time;
use perigee_wire::{CaptureWriter, Direction, LinkType};
use rustix::fs::{linkat, AtFlags, OFlags, CWD};
use thiserror::Error;

use crate::link::driver::Observer;

/// A capture file could not be written.
#[derive(Debug, Error)]
#[error("{}: {error}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

/// Place of a run's captures: each node's file is `PREFIXnode.pcapng`.
#[derive(Clone, Copy, Debug)]
pub struct CaptureFiles<'a> {
    /// The folder; created if a study asks for captures.
    pub folder: &'a Path,
    /// Prefix of the file names.
    pub prefix: &'a str,
}

/// The running captures of a run's nodes.
pub(crate) struct Recorder {
    /// The tap of each link for packets that enter it.
    leaving: Vec<Option<Tap>>,
    /// The tap of each link for packets that leave it.
    entering: Vec<Option<Tap>>,
    nodes: Vec<String>,
    /// Packets dropped from the full buffer, for each file and interface.
    missing: Vec<Vec<u64>>,
    /// The block being filled.
    block: Option<Vec<u8>>,
    blocks: usize,
    most_blocks: usize,
    full: Option<Sender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    writing: Option<JoinHandle<Result<Vec<Capture>, CaptureError>>>,
    next_flush: Time,
    broken: bool,
}

/// File and interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tap {
    file: u16,
    interface: u16,
}

impl Recorder {
    /// Captures for the nodes of `measure.pcap`; `None` without any. `origin` is the time since 1970 at which the
    /// run's time is zero.
    pub(crate) fn new(
        scenario: &Scenario,
        files: &CaptureFiles<'_>,
        origin: Duration,
    ) -> Result<Option<Self>, CaptureError> {
        Self::with_room(scenario, files, origin, MOST_BLOCKS)
    }

    fn with_room(
        scenario: &Scenario,
        files: &CaptureFiles<'_>,
        origin: Duration,
        most_blocks: usize,
    ) -> Result<Option<Self>, CaptureError> {
        let nodes = &scenario.measure.pcap;
        if nodes.is_empty() {
            return Ok(None);
        }
        let failed = |error| CaptureError { path: files.folder.to_owned(), error };
        fs::create_dir_all(files.folder).map_err(failed)?;
        let links = scenario.links.len();
        let (mut leaving, mut entering) = (vec![None; links], vec![None; links]);
        let (mut captures, mut missing, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (file, node) in (0..).zip(nodes) {
            let interfaces: Vec<LinkAt<'_>> = scenario.links_at(*node).collect();
            for (interface, link) in (0..).zip(&interfaces) {
                let tap = Some(Tap { file, interface });
                link.leaving.into_iter().for_each(|number| leaving[number] = tap);
                link.entering.into_iter().for_each(|number| entering[number] = tap);
            }
            let name = &scenario.nodes[*node as usize];
            let path = files.folder.join(format!("{}{name}.pcapng", files.prefix));
            missing.push(vec![0; interfaces.len()]);
            names.push(name.to_string());
            captures.push(Capture::new(path, interfaces.iter().map(|link| link.name), origin)?);
        }
        let ((full, to_write), (written, empty)) = (channel(), channel());
        let writing = Builder::new().spawn(move || write(captures, &to_write, &written, origin)).map_err(failed)?;
        Ok(Some(Self {
            leaving,
            entering,
            nodes: names,
            missing,
            block: None,
            blocks: 0,
            most_blocks,
            full: Some(full),
            empty,
            writing: Some(writing),
            next_flush: Time::ZERO,
            broken: false,
        }))
    }

    /// Waits for the writing thread, and names the files.
    pub(crate) fn finish(mut self, run: u32) -> Result<Vec<GapRow>, CaptureError> {
        self.hand_over();
        let captures = self.join()?;
        let mut gaps = Vec::new();
        for ((mut capture, missing), node) in captures.into_iter().zip(&self.missing).zip(&self.nodes) {
            capture.finish(missing)?;
            let packets = missing.iter().sum();
            if packets > 0 {
                gaps.push(GapRow { run, record: "capture".into(), of: node.as_str().into(), missing: packets });
            }
        }
        Ok(gaps)
    }

    /// The error that ended the writing thread early.
    pub(crate) fn error(mut self) -> Option<CaptureError> {
        self.join().err()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    fn join(&mut self) -> Result<Vec<Capture>, CaptureError> {
        self.full = None;
        let joined = self.writing.take().map(JoinHandle::join);
        let panicked = || CaptureError { path: PathBuf::new(), error: io::Error::other("the writing thread panicked") };
        joined.and_then(Result::ok).unwrap_or_else(|| Err(panicked()))
    }

    fn push(&mut self, place: Option<Tap>, direction: Direction, now: Time, packet: &[u8]) {
        let Some(place) = place else { return };
        if self.block.is_none() {
            self.block = self.empty.try_recv().ok().or_else(|| {
                (self.blocks < self.most_blocks).then(|| {
                    self.blocks += 1;
                    Vec::with_capacity(BLOCK)
                })
            });
        }
        let Some(block) = &mut self.block else {
            self.missing[usize::from(place.file)][usize::from(place.interface)] += 1;
            return;
        };
        PacketHeader { now, place, direction, length: packet.len() as u32 }
            .encode(&packet[..packet.len().min(KEPT)], block);
        if block.len() + ENTRY + KEPT > BLOCK {
            self.hand_over();
        }
    }

    /// Passes the block being filled to the writing thread.
    fn hand_over(&mut self) {
        if let (Some(block), Some(full)) = (self.block.take(), &self.full) {
            self.broken |= full.send(block).is_err();
        }
    }
}

impl Observer for Recorder {
    fn offered(&mut self, direction: usize, now: Time, packet: &[u8]) {
        self.push(self.leaving[direction], Direction::Outbound, now, packet);
    }

    fn released(&mut self, direction: usize, now: Time, packet: &[u8]) {
        self.push(self.entering[direction], Direction::Inbound, now, packet);
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        if now >= self.next_flush {
            self.next_flush = now + FLUSH;
            self.hand_over();
        }
        if self.broken {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(None)
        }
    }
}

/// Header of a packet in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PacketHeader {
    now: Time,
    place: Tap,
    direction: Direction,
    length: u32,
}

impl PacketHeader {
    fn encode(self, kept: &[u8], block: &mut Vec<u8>) {
        block.extend(self.now.as_nanos().to_le_bytes());
        block.extend(self.place.file.to_le_bytes());
        block.extend(self.place.interface.to_le_bytes());
        block.extend(self.length.to_le_bytes());
        block.extend([self.direction as u8, kept.len() as u8]);
        block.extend(kept);
    }

    /// The first packet of a block, its bytes, and the rest of the block.
    fn decode(block: &[u8]) -> Option<(Self, &[u8], &[u8])> {
        let (head, rest) = block.split_first_chunk::<ENTRY>()?;
        let two = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let now = u64::from_le_bytes(*head.first_chunk()?);
        let direction = if head[16] == Direction::Outbound as u8 { Direction::Outbound } else { Direction::Inbound };
        let length = u32::from(two(12)) | u32::from(two(14)) << 16;
        let place = Tap { file: two(8), interface: two(10) };
        let (kept, rest) = rest.split_at_checked(usize::from(head[17]))?;
        Some((Self { now: Time::from_nanos(now), place, direction, length }, kept, rest))
    }
}

/// The writing thread.
fn write(
    mut captures: Vec<Capture>,
    full: &Receiver<Vec<u8>>,
    empty: &Sender<Vec<u8>>,
    origin: Duration,
) -> Result<Vec<Capture>, CaptureError> {
    for mut block in full {
        let mut rest = &block[..];
        while let Some((entry, kept, others)) = PacketHeader::decode(rest) {
            rest = others;
            let capture = &mut captures[usize::from(entry.place.file)];
            capture.last = origin + Duration::from_nanos(entry.now.as_nanos());
            let interface = u32::from(entry.place.interface);
            let done = capture.writer.packet(capture.last, interface, entry.direction, entry.length, kept);
            done.map_err(|error| CaptureError { path: capture.path.clone(), error })?;
        }
        block.clear();
        // The channel closes after the last block.
        let _ = empty.send(block);
    }
    Ok(captures)
}

/// A file without its final name.
struct Capture {
    path: PathBuf,
    /// Its temporary name, on file systems without unnamed files.
    temporary: Option<PathBuf>,
    writer: CaptureWriter<BufWriter<File>>,
    last: Duration,
}

impl Capture {
    fn new<'a>(
        path: PathBuf,
        interfaces: impl Iterator<Item = &'a str>,
        origin: Duration,
    ) -> Result<Self, CaptureError> {
        let (file, temporary) = match create(&path) {
            Ok(created) => created,
            Err(error) => return Err(CaptureError { path, error }),
        };
        let comment = format!("the run's time is zero at {}.{:09} s", origin.as_secs(), origin.subsec_nanos());
        let file = BufWriter::with_capacity(BLOCK, file);
        match CaptureWriter::new(file, LinkType::Ip, interfaces, Some(comment)) {
            Ok(writer) => Ok(Self { path, temporary, writer, last: origin }),
            Err(error) => Err(CaptureError { path, error }),
        }
    }

    fn finish(&mut self, missing: &[u64]) -> Result<(), CaptureError> {
        self.name(missing).map_err(|error| CaptureError { path: self.path.clone(), error })
    }

    fn name(&mut self, missing: &[u64]) -> io::Result<()> {
        for (interface, packets) in (0..).zip(missing).filter(|(_, packets)| **packets > 0) {
            self.writer.missing(self.last, interface, *packets)?;
        }
        let file = self.writer.get_mut();
        file.flush()?;
        file.get_ref().sync_all()?;
        if self.temporary.is_none() {
            let temporary = beside(&self.path);
            let nameless = format!("/proc/self/fd/{}", file.get_ref().as_raw_fd());
            let _ = fs::remove_file(&temporary);
            linkat(CWD, nameless, CWD, &temporary, AtFlags::SYMLINK_FOLLOW)?;
            self.temporary = Some(temporary);
        }
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file for `path`: unnamed, so that a kill leaves nothing, or with a temporary name beside it.
fn create(path: &Path) -> io::Result<(File, Option<PathBuf>)> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let nameless = OpenOptions::new().write(true).mode(MODE).custom_flags(OFlags::TMPFILE.bits() as i32).open(folder);
    match nameless {
        Ok(file) => Ok((file, None)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let temporary = beside(path);
            // A symbolic link in its place is removed, not followed.
            let _ = fs::remove_file(&temporary);
            Ok((File::create_new(&temporary)?, Some(temporary)))
        }
        Err(error) => Err(error),
    }
}

/// The hidden name of an unfinished file.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

/// Snap length, bytes: the largest IPv4 and TCP headers together, and 8 more.
const KEPT: usize = 128;
const ENTRY: usize = 18;
/// Size of a block, bytes.
const BLOCK: usize = 1 << 18;
/// 64 MB: about five seconds of a stalled disk at 1 Gbit/s.
const MOST_BLOCKS: usize = 256;
/// Longest time before a block is passed on.
const FLUSH: Time = Time::from_millis(100);
const MODE: u32 = 0o644;

#[cfg(test)]
#[path = "captures_tests.rs"]
mod tests;
