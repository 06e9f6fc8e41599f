//! Messages between two processes of this host, each with at most one descriptor (`SCM_RIGHTS` of unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{retry_on_intr, Errno};
use rustix::net::sockopt::{set_socket_timeout, socket_peercred, Timeout};
use rustix::net::{
    accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with, AddressFamily, RecvAncillaryBuffer,
    RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, UCred,
};

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message, never empty.
#[derive(Debug)]
pub struct Message {
    /// Its text or numbers.
    pub bytes: Vec<u8>,
    /// A descriptor that it hands over.
    pub descriptor: Option<OwnedFd>,
}

impl Channel {
    /// Listens at a path, which nothing may have yet.
    pub(crate) fn listener(path: &Path) -> io::Result<OwnedFd> {
        let socket = socket(SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, WAITING)?;
        Ok(socket)
    }

    /// Connects to who listens at a path.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket(SocketFlags::empty())?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Self::of(socket)
    }

    /// The next one that has connected.
    pub(crate) fn accept(listener: impl AsFd) -> Option<Self> {
        accept_with(listener, SocketFlags::CLOEXEC).ok().and_then(|socket| Self::of(socket).ok())
    }

    /// The end of a connection that another process has handed over, or a new one.
    ///
    /// # Errors
    /// If it is no socket.
    pub fn of(socket: OwnedFd) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Who has connected, or listened.
    pub(crate) fn peer(&self) -> io::Result<UCred> {
        Ok(socket_peercred(&self.0)?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the other end is gone, or does not read.
    pub fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let descriptors = descriptor.as_slice();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Sends a message that is of no use later: not if the other end is gone, or has others to read.
    pub(crate) fn offer(&self, bytes: &[u8]) {
        let _ = rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// After 20 s, and at the end of the connection.
    pub fn receive(&self) -> io::Result<Message> {
        self.next(RecvFlags::CMSG_CLOEXEC)?.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// The next message, if it arrives in time.
    ///
    /// # Errors
    /// At the end of the connection.
    pub fn within(&self, time: Timespec) -> io::Result<Option<Message>> {
        // An error means that a signal has ended the wait.
        let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&time));
        self.arrived()
    }

    /// The next message, if it has arrived; an error at the end of the connection.
    pub(crate) fn arrived(&self) -> io::Result<Option<Message>> {
        self.next(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    }

    fn next(&self, flags: RecvFlags) -> io::Result<Option<Message>> {
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut receive =
            || retry_on_intr(|| recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags));
        let received = match receive() {
            // Once, before what has arrived: the other end has gone, and not read all.
            Err(Errno::CONNRESET) => receive(),
            other => other,
        };
        let length = match received {
            // unix(7): what is beyond the limit of descriptors is closed.
            Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => {
                return Err(io::Error::other(
                    "a socket more is beyond the limit of open files; raise it (`ulimit -n`)",
                ));
            }
            Ok(received) if received.bytes > 0 => received.bytes,
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        bytes.truncate(length);
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptor = descriptors.flatten().next();
        Ok(Some(Message { bytes, descriptor }))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Message {
    /// Its bytes as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }
}

/// A socket that keeps the limits of messages.
fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)?)
}

/// How long either end waits for the other: less than the service manager waits for a sign of life.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections that wait to be accepted.
const WAITING: i32 = 8;
/// The longest message, bytes: the first packet of a connection, and what is known of it.
const LONGEST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    #[test]
    fn messages_keep_their_limits_and_bring_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("channel");
        let listener = Channel::listener(&path).unwrap();
        assert!(Channel::accept(&listener).is_none());
        let near = Channel::connect(&path).unwrap();
        let far = Channel::accept(&listener).unwrap();
        assert_eq!(far.peer().unwrap().pid.as_raw_nonzero().get() as u32, std::process::id());
        assert!(far.arrived().unwrap().is_none());
        let (mut reader, mut writer) = io::pipe().unwrap();
        near.send(b"first", None).unwrap();
        near.send(b"second", Some(writer.as_fd())).unwrap();
        let (first, second) = (far.receive().unwrap(), far.receive().unwrap());
        assert_eq!((first.text(), first.descriptor.is_none(), second.text()), ("first", true, "second"));
        writer.write_all(b"near").unwrap();
        drop(writer);
        File::from(second.descriptor.unwrap()).write_all(b" and far").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "near and far");
        // One that goes with messages unread has its own heard.
        far.offer(b"unread");
        near.send(b"last", None).unwrap();
        drop(near);
        assert_eq!(far.receive().unwrap().text(), "last");
        assert_eq!(far.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
