//! TUN devices: the kernel's packets as bytes of a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::OFlags;
use rustix::ioctl::{ioctl, opcode, Updater};

/// A TUN device of the namespace in which it was created, until this is dropped.
///
/// It has no offloads: the kernel does segmentation and checksums before a packet gets here, so that each is one that
/// could be on a link.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Creates a device in the calling thread's namespace. Its name has at most 15 letters; the kernel replaces `%d` by the
    /// first free number.
    ///
    /// # Errors
    /// If `/dev/net/tun` is missing, the process lacks `CAP_NET_ADMIN`, or the name is taken.
    pub fn new(name: &str) -> io::Result<Self> {
        let flags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
        let mut request =
            Request { name: [0; NAME_BYTES], flags: IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL, padding: [0; 22] };
        if name.len() >= NAME_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is longer than 15 letters")));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF reads and writes a struct ifreq, the layout of Request.
        unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request))? };
        let name = request.name.iter().take_while(|letter| **letter != 0).map(|letter| char::from(*letter)).collect();
        Ok(Self { file, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next packet sent by the kernel, if one waits.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(size) => Ok(Some(size)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Injects a packet into the kernel as received. If the kernel does not accept it (the device is down, memory is
    /// short), it is lost, as on any network.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        match (&self.file).write(packet) {
            Err(error) if error.raw_os_error() == Some(EBADFD) => Err(error),
            _ => Ok(()),
        }
    }
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
const IFF_TUN_EXCL: u16 = 0x8000;
/// "File descriptor in bad state": the device was deleted.
const EBADFD: i32 = 77;
