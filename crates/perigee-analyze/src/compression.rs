//! Compressed files: gzip, xz and Zstandard, read as they are unpacked.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// A format of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Xz,
    Zstandard,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstandard => "zstd",
        })
    }
}

/// The compression of a file by its beginning, if it has one.
pub(crate) fn of(head: &[u8]) -> Option<Packing> {
    MAGIC.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, packing)| packing)
}

/// Unpacks a file, all parts that were joined in it.
pub(crate) fn unpacked(packing: Packing, source: Box<dyn Read>) -> Box<dyn Read> {
    match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(source)),
        Packing::Xz => Box::new(XzReader::new(BufReader::new(source), true)),
        Packing::Zstandard => Box::new(Frames { frame: None, source: Some(BufReader::new(source)) }),
    }
}

/// The frames of a file by Zstandard, one after the other (RFC 8878, section 3).
struct Frames {
    frame: Option<StreamingDecoder<BufReader<Box<dyn Read>>, FrameDecoder>>,
    /// Bytes behind the frame; `None` while one is open, and at the end.
    source: Option<BufReader<Box<dyn Read>>>,
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut frame) = self.frame.take() {
                let read = frame.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    self.frame = Some(frame);
                    return Ok(read);
                }
                let (source, decoder) = frame.into_parts();
                let claimed = decoder.get_checksum_from_data();
                if claimed.is_some() && claimed != decoder.get_calculated_checksum() {
                    return Err(io::Error::other("the checksum is another"));
                }
                self.source = Some(source);
            }
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.frame = Some(StreamingDecoder::new(source).map_err(io::Error::other)?);
        }
    }
}

const MAGIC: [(&[u8], Packing); 3] = [
    (&[0x1f, 0x8b], Packing::Gzip),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packing::Xz),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packing::Zstandard),
];
