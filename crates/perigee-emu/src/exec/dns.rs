//! Parsing for the DNS forwarder: the host's `resolv.conf` (resolv.conf(5)), and the headers of DNS
//! messages (RFC 1035, section 4.1.1).

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

/// The first name server of a `resolv.conf`.
///
/// ```
/// use perigee_emu::dns::name_server; assert_eq!(name_server("nameserver 192.0.2.1 # ours\n"), Some([192, 0, 2,
/// 1].into())); assert_eq!(name_server("search example.org\n"), None);
/// ```
pub fn name_server(text: &str) -> Option<IpAddr> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix("nameserver")?.strip_prefix([' ', '\t'])?;
        rest.trim_start().split([' ', '\t', ';', '#']).next()?.parse().ok()
    })
}

/// A `resolv.conf` with this name server instead of all others.
pub fn rewritten(text: &str, server: Ipv4Addr) -> String {
    let mut new = format!("nameserver {server}\n");
    for line in text.lines().filter(|line| line.starts_with("search") || line.starts_with("options")) {
        let _ = writeln!(new, "{}", line.trim_end());
    }
    new
}

/// The identifier of a query; `None` if the message is no query.
pub fn question(message: &[u8]) -> Option<u16> {
    let (number, is_answer) = header(message)?;
    (!is_answer).then_some(number)
}

/// Whether a message answers the query of this identifier.
pub fn answers(message: &[u8], number: u16) -> bool {
    header(message) == Some((number, true))
}

/// The identifier of a message, and whether it is a response.
fn header(message: &[u8]) -> Option<(u16, bool)> {
    let header = message.first_chunk::<HEADER_BYTES>()?;
    Some((u16::from_be_bytes([header[0], header[1]]), header[2] & ANSWER != 0))
}

const HEADER_BYTES: usize = 12;
/// The QR bit, in the third byte of the header.
const ANSWER: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_near_end_takes_the_place_of_all_name_servers() {
        let text = "# ours\nsearch example.org\nnameserver 127.0.0.53\nnameserver 192.0.2.1\noptions edns0\n";
        assert_eq!(name_server(text), Some(Ipv4Addr::new(127, 0, 0, 53).into()));
        let near = Ipv4Addr::new(100, 64, 0, 1);
        assert_eq!(rewritten(text, near), "nameserver 100.64.0.1\nsearch example.org\noptions edns0\n");
        assert_eq!(name_server("nameserver nonsense\nnameservers 192.0.2.1\n"), None);
    }

    #[test]
    fn questions_and_their_answers_are_told_apart_by_the_header() {
        let message = |flags: u8| [0x12, 0x34, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(question(&message(0x01)), Some(0x1234));
        assert_eq!(question(&message(0x81)), None);
        assert_eq!(question(&message(0x01)[..11]), None, "shorter than a header");
        assert!(
            answers(&message(0x81), 0x1234) && !answers(&message(0x81), 0x1235) && !answers(&message(0x01), 0x1234)
        );
    }
}
