//! Why files cannot be analysed.

use std::io;

use thiserror::Error;

/// Why files cannot be analysed; the message names the file and what to do.
#[derive(Debug, Error)]
pub enum AnalyzeError {
    /// A file cannot be read.
    #[error("{file}: cannot be read: {error}")]
    Unreadable {
        /// As it was given.
        file: String,
        /// The error of the system.
        error: io::Error,
    },
    /// It is something else.
    #[error("{file}: is not a capture ({why}); give a pcap or pcapng file, as tcpdump -w and Wireshark write it")]
    NotACapture {
        /// As it was given.
        file: String,
        /// The content found instead.
        why: String,
    },
    /// Its packets are of links that are not known.
    #[error(
        "{file}: packets of link type {link} ({name}) cannot be read; capture at an Ethernet, IP, PPP, Wi-Fi, loopback or \
         `any` interface"
    )]
    UnknownLink {
        /// As it was given.
        file: String,
        /// The number of the type.
        link: u16,
        /// Its name.
        name: &'static str,
    },
    /// Its packets were cut off within their headers.
    #[error(
        "{file}: {packets} packets were cut off after {bytes} bytes, within their headers; capture at least 128 bytes of \
         each packet (tcpdump -s 128)"
    )]
    CutOff {
        /// As it was given.
        file: String,
        /// Packets that were cut off.
        packets: u64,
        /// Bytes that were captured of each.
        bytes: usize,
    },
    /// No connection is in it.
    #[error(
        "{file}: holds no TCP and no UDP ({said}); capture where the transfer passes, without a filter that drops it"
    )]
    NoTraffic {
        /// As it was given.
        file: String,
        /// Its content, in words.
        said: String,
    },
    /// The caller wanted no more.
    #[error("stopped")]
    Cancelled,
}
