//! TUN devices: the kernel's packets as bytes of a file.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use perigee_wire::{Departing, Offload};
use rustix::fs::OFlags;
use rustix::ioctl::{ioctl, opcode, IntegerSetter, Updater};

/// A TUN device of the namespace in which it was created, until this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Creates a device in the calling thread's namespace. Its name has at most 15 letters; the kernel replaces `%d` by the
    /// first free number. With `offload` the kernel hands over trains of TCP segments, and packets without their checksums.
    ///
    /// # Errors
    /// If `/dev/net/tun` is missing, the process lacks `CAP_NET_ADMIN`, or the name is taken.
    pub fn new(name: &str, offload: bool) -> io::Result<Self> {
        let flags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
        let mut request = Request {
            name: [0; NAME_BYTES],
            flags: IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL | IFF_VNET_HDR,
            padding: [0; 22],
        };
        if name.len() >= NAME_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is longer than 15 letters")));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF reads and writes a struct ifreq, the layout of Request.
        unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request))? };
        if offload {
            // SAFETY: TUNSETOFFLOAD takes a number, and these are its flags.
            unsafe { ioctl(&file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(OFFLOADS))? };
        }
        let name = request.name.iter().take_while(|letter| **letter != 0).map(|letter| char::from(*letter)).collect();
        Ok(Self { file, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads what the kernel has sent next, if anything waits; whether it did.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive(&self, packet: &mut Departing) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES];
        let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(packet.room())];
        match (&self.file).read_vectored(parts) {
            Ok(size) => {
                packet.begin(size.saturating_sub(HEADER_BYTES), read(header));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Injects a packet into the kernel as received. If the kernel does not accept it (the device is down, memory is
    /// short), it is lost, as on any network.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn send(&self, packet: &[u8], offload: Offload) -> io::Result<()> {
        let header = written(packet, offload);
        match (&self.file).write_vectored(&[IoSlice::new(&header), IoSlice::new(packet)]) {
            Err(error) if error.raw_os_error() == Some(EBADFD) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads a `struct virtio_net_hdr`, in the machine's byte order.
fn read(header: [u8; HEADER_BYTES]) -> Offload {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let (flags, kind) = (header[0], header[1]);
    Offload {
        checksum: (flags & NEEDS_CSUM != 0).then(|| (word(6), word(8))),
        segment: (kind != GSO_NONE).then(|| word(4)),
    }
}

/// The `struct virtio_net_hdr` of a packet.
fn written(packet: &[u8], Offload { checksum, segment }: Offload) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let mut write = |at: usize, word: u16| header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
    if let Some((start, offset)) = checksum {
        write(6, start);
        write(8, offset);
        // Headers of a train end behind TCP's: its length is in four bits of its 13th byte.
        let length = packet.get(usize::from(start) + 12).map_or(0, |byte| u16::from(byte >> 4) * 4);
        write(2, start + length);
    }
    write(4, segment.unwrap_or_default());
    header[0] = if checksum.is_some() { NEEDS_CSUM } else { 0 };
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    header[1] = segment.map_or(GSO_NONE, |_| if is_v6 { GSO_TCPV6 } else { GSO_TCPV4 });
    header
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `struct ifreq` of TUNSETIFF.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: u16,
    padding: [u8; 22],
}

/// Packets queued by the kernel for a busy driver.
pub(crate) const QUEUE_PACKETS: u32 = 10_000;
const NAME_BYTES: usize = 16;
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const IFF_TUN_EXCL: u16 = 0x8000;
const TUNSETOFFLOAD: rustix::ioctl::Opcode = opcode::write::<u32>(b'T', 208);
/// Checksums (`TUN_F_CSUM`), and trains of TCP over IPv4, over IPv6, and with CWR (`TUN_F_TSO4`, `TUN_F_TSO6`, `TUN_F_TSO_ECN`).
const OFFLOADS: usize = 0x01 | 0x02 | 0x04 | 0x08;
/// Size of `struct virtio_net_hdr`, and values of its fields.
const HEADER_BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// "File descriptor in bad state": the device was deleted.
const EBADFD: i32 = 77;

/// The name of a directed link's devices. Not the link's own: the kernel reserves `lo`, `all` and `default`, and truncates
/// after 15 letters.
pub(crate) fn device_of(link: usize) -> String {
    format!("link{}", link / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_what_is_left_to_the_other_side() {
        // IP's header, and TCP's with a length of 32 bytes.
        let packet = |version: u8, ip: usize| {
            let mut packet = vec![0; ip + 100];
            packet[0] = version << 4 | 5;
            packet[ip + 12] = 8 << 4;
            packet
        };
        for (version, ip, kind) in [(4, 20, GSO_TCPV4), (6, 40, GSO_TCPV6)] {
            let train = Offload { checksum: Some((ip as u16, 16)), segment: Some(1448) };
            let header = written(&packet(version, ip), train);
            assert_eq!(read(header), train);
            assert_eq!((header[1], header[2..4] == (ip as u16 + 32).to_ne_bytes()), (kind, true));
        }
        let whole = written(&packet(4, 20), Offload::default());
        assert_eq!((whole, read(whole)), ([0; HEADER_BYTES], Offload::default()));
        // Trains with CWR have a flag in the kind.
        assert_eq!(read([1, GSO_TCPV4 | 0x80, 0, 0, 180, 5, 20, 0, 16, 0]).segment, Some(u16::from_ne_bytes([180, 5])));
    }
}
