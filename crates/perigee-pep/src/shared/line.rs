//! A line of the log, value by value: each connection has one, and `core::fmt` takes several times the instructions.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::log::{quoted, LONGEST_VALUE};

/// A line that grows.
#[derive(Debug)]
pub(crate) struct Line(String);

impl Line {
    pub(crate) fn new() -> Self {
        Self(String::with_capacity(MOST))
    }

    /// Adds text as it is.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// Adds a number of thousandths, with three decimals.
    pub(crate) fn thousandths(&mut self, count: u64) -> &mut Self {
        // All three digits, behind one more.
        let decimals = 1000 + count % 1000;
        self.number(count / 1000).text(".").text(&itoa::Buffer::new().format(decimals)[1..])
    }

    /// Adds an address with its port.
    pub(crate) fn address(&mut self, address: SocketAddr) -> &mut Self {
        let SocketAddr::V4(address) = address else {
            // It fails for no string.
            let _ = write!(self.0, "{address}");
            return self;
        };
        let [a, b, c, d] = address.ip().octets().map(u64::from);
        self.number(a).text(".").number(b).text(".").number(c).text(".").number(d);
        self.text(":").number(address.port().into())
    }

    /// Adds a value in quotation marks, as [`quoted`].
    pub(crate) fn quoted(&mut self, value: &str) -> &mut Self {
        let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~' if !b"\"\\".contains(&byte)));
        if is_plain && value.len() <= LONGEST_VALUE {
            self.text("\"").text(value).text("\"")
        } else {
            self.text(&quoted(value))
        }
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// Bytes of most lines of connections.
const MOST: usize = 384;
