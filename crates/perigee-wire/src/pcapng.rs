//! Writes packets as pcapng: one section, one interface per link, nanoseconds.

use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};

/// The first header of a capture's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// The header of IPv4 or IPv6.
    Ip,
}

/// The direction of a packet at a node's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The packet arrives.
    Inbound = 1,
    /// The packet is sent.
    Outbound = 2,
}

/// Writes a capture to any [`Write`]; this crate opens no files.
///
/// ```
/// use perigee_wire::{CaptureWriter, Direction, LinkType};
/// use std::time::Duration;
/// let mut capture = CaptureWriter::new(Vec::new(), LinkType::Ip, ["satellite"], None)?;
/// capture.packet(Duration::from_millis(5), 0, Direction::Outbound, 1500, &[0x45, 0, 5, 220])?;
/// assert_eq!(capture.into_inner()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct CaptureWriter<W: Write>(PcapNgWriter<W>);

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture with an interface per name, and a comment on the whole.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new<'a>(
        out: W,
        link_type: LinkType,
        interfaces: impl IntoIterator<Item = &'a str>,
        comment: Option<String>,
    ) -> io::Result<Self> {
        let options = comment.map(|text| SectionHeaderOption::Comment(text.into())).into_iter().collect();
        let section = SectionHeaderBlock { endianness: Endianness::Little, options, ..SectionHeaderBlock::default() };
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        let linktype = match link_type {
            LinkType::Ethernet => DataLink::ETHERNET,
            LinkType::Ip => DataLink::RAW,
        };
        for name in interfaces {
            let name = InterfaceDescriptionOption::IfName(name.to_owned().into());
            let options = vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)];
            let block = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
            writer.write_block(&block.into_block()).map_err(io_error)?;
        }
        Ok(Self(writer))
    }

    /// Writes a packet of `original_len` bytes at the interface of this number; `data` are the bytes kept of it, `at` is the
    /// time since 1970, or since the beginning of a simulation.
    ///
    /// # Errors
    /// Those of `out`; [`io::ErrorKind::InvalidInput`] for an interface that was not named.
    pub fn packet(
        &mut self,
        at: Duration,
        interface: u32,
        direction: Direction,
        original_len: u32,
        data: &[u8],
    ) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: at,
            original_len,
            data: data.into(),
            options: vec![EnhancedPacketOption::Flags(direction as u32)],
        };
        self.0.write_block(&block.into_block()).map(drop).map_err(io_error)
    }

    /// Records the number of packets of an interface that the capture lacks, which were too fast to be written.
    ///
    /// # Errors
    /// As for [`CaptureWriter::packet`].
    pub fn missing(&mut self, at: Duration, interface: u32, packets: u64) -> io::Result<()> {
        let timestamp = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let options = vec![InterfaceStatisticsOption::IsbIfDrop(packets)];
        let block = InterfaceStatisticsBlock { interface_id: interface, timestamp, options };
        self.0.write_block(&block.into_block()).map(drop).map_err(io_error)
    }

    /// The destination.
    pub fn get_mut(&mut self) -> &mut W {
        self.0.get_mut()
    }

    /// The destination, after the last packet.
    pub fn into_inner(self) -> W {
        self.0.into_inner()
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}

/// `if_tsresol`: ten to the minus nine.
const NANOSECONDS: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of limited size, bytes.
    struct Small(usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_as_one_and_an_unknown_interface_as_wrong() {
        let mut capture = CaptureWriter::new(Small(2000), LinkType::Ip, ["a"], None).unwrap();
        let mut write = |interface, bytes| {
            let done =
                capture.packet(Duration::ZERO, interface, Direction::Inbound, bytes, &vec![0x45; bytes as usize]);
            done.map_err(|error| error.kind())
        };
        assert_eq!(write(0, 1000), Ok(()));
        assert_eq!(write(1, 20), Err(io::ErrorKind::InvalidInput));
        assert_eq!(write(0, 1000), Err(io::ErrorKind::StorageFull));
    }
}
