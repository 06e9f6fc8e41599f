//! The format of a stream of the tunnel: an opening, and each direction's bytes in records, the last of which has its outcome.
//!
//! The end of a QUIC stream alone never ends a direction: a box that vanishes must not look like one that has finished.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// The opening, which the terminal sends first: client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// Why a direction, or the connection to the server, has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Reset,
    Refused,
    TimedOut,
    Unreachable,
    /// Refused by the configuration or a limit of the other box.
    NotServed,
    Other,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// This many bytes follow.
    Data(usize),
    /// The direction has ended in order.
    End,
    /// The direction has failed.
    Failed(Failure),
}

impl Opening {
    /// Encodes version, and both addresses with their ports.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for address in [self.source, self.destination] {
            match address.ip() {
                IpAddr::V4(ip) => {
                    out.push(4);
                    out.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.push(6);
                    out.extend(ip.octets());
                }
            }
            out.extend(address.port().to_be_bytes());
        }
        out
    }

    /// Decodes the first bytes of a stream; returns the opening and its length, or `None` if more bytes are needed. The error is for
    /// bytes that are no opening.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let mut rest = Rest(bytes);
        let Some([version]) = rest.take() else { return Ok(None) };
        if version != VERSION {
            return Err("it speaks another version of the tunnel");
        }
        let Some(source) = rest.address()? else { return Ok(None) };
        let Some(destination) = rest.address()? else { return Ok(None) };
        if source.is_ipv4() != destination.is_ipv4() {
            return Err("its addresses are of two families");
        }
        Ok(Some((Self { source, destination }, bytes.len() - rest.0.len())))
    }
}

/// Bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn address(&mut self) -> Result<Option<SocketAddr>, &'static str> {
        let ip = match self.take() {
            None => None,
            Some([4]) => self.take::<4>().map(IpAddr::from),
            Some([6]) => self.take::<16>().map(IpAddr::from),
            Some(_) => return Err("it names an address of no family"),
        };
        let port = ip.and_then(|_| self.take()).map(u16::from_be_bytes);
        Ok(ip.zip(port).map(SocketAddr::from))
    }
}

impl Failure {
    const ALL: [Self; 6] =
        [Self::Reset, Self::Refused, Self::TimedOut, Self::Unreachable, Self::NotServed, Self::Other];

    /// Its code in the tunnel, never zero.
    pub(crate) fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The failure of a code.
    pub(crate) fn of_code(code: u64) -> Self {
        Self::ALL.into_iter().find(|one| u64::from(one.code()) == code).unwrap_or(Self::Other)
    }

    /// The failure of a socket error.
    pub(crate) fn of_kind(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Reset,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::PermissionDenied => Self::NotServed,
            _ => Self::Other,
        }
    }

    /// The socket error of a failure.
    pub(crate) fn kind(self) -> io::ErrorKind {
        match self {
            Self::Reset => io::ErrorKind::ConnectionReset,
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::Unreachable => io::ErrorKind::HostUnreachable,
            Self::NotServed => io::ErrorKind::PermissionDenied,
            Self::Other => io::ErrorKind::Other,
        }
    }
}

impl Head {
    /// Encodes the length of the data, zero for the end, or [`FAILED`] plus the code of a failure.
    pub(crate) fn encode(self) -> [u8; HEAD] {
        let number = match self {
            Self::Data(length) => length as u16,
            Self::End => 0,
            Self::Failed(failure) => FAILED + u16::from(failure.code()),
        };
        number.to_be_bytes()
    }

    pub(crate) fn decode(bytes: [u8; HEAD]) -> Self {
        match u16::from_be_bytes(bytes) {
            0 => Self::End,
            number if number > FAILED => Self::Failed(Failure::of_code(u64::from(number - FAILED))),
            length => Self::Data(usize::from(length)),
        }
    }
}

/// Length of the head of a record, bytes.
pub(crate) const HEAD: usize = 2;
/// Largest number of bytes in a record.
pub(crate) const MOST: usize = 16 << 10;
/// Values above it are failures.
const FAILED: u16 = 0xff00;
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_opening_is_read_once_all_of_it_is_there() {
        for [source, destination] in
            [["192.0.2.1:40000", "203.0.113.9:443"], ["[2001:db8::1]:1", "[2001:db8::2]:65535"]]
        {
            let opening = Opening { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
            let bytes = opening.encode();
            for length in 0..bytes.len() {
                assert_eq!(Opening::decode(&bytes[..length]), Ok(None));
            }
            assert_eq!(Opening::decode(&[&bytes[..], b"more"].concat()), Ok(Some((opening, bytes.len()))));
        }
        assert!(Opening::decode(&[2]).is_err());
        assert!(Opening::decode(&[1, 5]).is_err());
        assert!(Opening::decode(&[1, 4, 1, 1, 1, 1, 0, 1, 6]).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Opening::decode(&bytes);
        }

        #[test]
        fn a_head_is_read_as_it_was_written(length in 1..=MOST) {
            prop_assert_eq!(Head::decode(Head::Data(length).encode()), Head::Data(length));
        }
    }

    #[test]
    fn ends_and_failures_are_told_apart() {
        assert_eq!(Head::decode(Head::End.encode()), Head::End);
        for failure in Failure::ALL {
            assert_eq!(Head::decode(Head::Failed(failure).encode()), Head::Failed(failure));
            assert_eq!(Failure::of_kind(failure.kind()), failure);
        }
        assert_eq!(Head::decode([0xff, 0xff]), Head::Failed(Failure::Other));
    }
}
