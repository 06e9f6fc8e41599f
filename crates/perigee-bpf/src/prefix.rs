//! Prefixes of addresses: `192.0.2.0/24`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A prefix, with IPv4 as `::ffff:a.b.c.d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: [u8; 16],
    bits: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no prefix of addresses: {reason}")]
pub struct PrefixError {
    text: String,
    reason: String,
}

impl Prefix {
    /// Whether all addresses of another prefix are of this one.
    pub(crate) fn contains(&self, other: Self) -> bool {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        let of = |prefix: &Self| u128::from_be_bytes(prefix.address) & mask;
        other.bits >= self.bits && of(self) == of(&other)
    }

    /// Family as `AF_INET` or `AF_INET6`, length and address, in the order of the network and from the begin of four words.
    pub(crate) fn by_family(&self) -> (u32, u8, [u8; 16]) {
        match Ipv6Addr::from(self.address).to_ipv4_mapped() {
            Some(v4) if self.bits >= 96 => {
                let mut words = [0; 16];
                words[..4].copy_from_slice(&v4.octets());
                (2, self.bits - 96, words)
            }
            _ => (10, self.bits, self.address),
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let wrong = |reason: String| PrefixError { text: text.to_owned(), reason };
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr =
            address.parse().map_err(|_| wrong("write an address and a length, such as 192.0.2.0/24".to_owned()))?;
        let (longest, before) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let bits = match length {
            None => longest,
            Some(length) => (length.parse::<u8>().ok().filter(|bits| *bits <= longest))
                .ok_or_else(|| wrong(format!("its length is a number from 0 to {longest}")))?,
        };
        let whole = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(before + bits)).unwrap_or(0);
        let prefix = Self { address: (whole.to_bits() & mask).to_be_bytes(), bits: before + bits };
        if Ipv6Addr::from(prefix.address) != whole {
            return Err(wrong(format!("its address goes on after {bits} bits; write {prefix}")));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.address);
        match address.to_ipv4_mapped() {
            Some(v4) if self.bits >= 96 => write!(f, "{}/{}", Ipv4Addr::from(v4.to_bits()), self.bits - 96),
            _ => write!(f, "{address}/{}", self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_written_as_it_is_read() {
        for text in ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.7/32", "::/0", "2001:db8::/32", "2001:db8::1/128"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("192.0.2.7".parse::<Prefix>().unwrap().to_string(), "192.0.2.7/32");
        assert_eq!("10.0.0.0/8".parse::<Prefix>().unwrap().bits, 104);
    }

    #[test]
    fn a_prefix_contains_those_of_its_addresses_and_no_others() {
        let contains = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| text.parse::<Prefix>().unwrap());
            one.contains(other)
        };
        assert!(contains("192.0.2.0/24", "192.0.2.0/24") && contains("192.0.0.0/16", "192.0.2.7/32"));
        assert!(contains("::/0", "2001:db8::/32") && contains("0.0.0.0/0", "10.0.0.0/8"));
        assert!(!contains("192.0.2.0/24", "192.0.0.0/16") && !contains("192.0.2.0/24", "192.0.3.0/24"));
        assert!(!contains("0.0.0.0/0", "2001:db8::/32"));
    }

    #[test]
    fn a_prefix_is_of_one_family_with_its_own_length() {
        let of = |text: &str| text.parse::<Prefix>().unwrap().by_family();
        let mut network = [0; 16];
        network[..3].copy_from_slice(&[192, 0, 2]);
        assert_eq!(of("192.0.2.0/24"), (2, 24, network));
        let (family, bits, network) = of("2001:db8::/32");
        assert_eq!((family, bits, &network[..5]), (10, 32, &[0x20, 1, 0xd, 0xb8, 0][..]));
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_what_to_write() {
        for (text, part) in [
            ("", "such as 192.0.2.0/24"),
            ("192.0.2", "such as 192.0.2.0/24"),
            ("example.org", "such as 192.0.2.0/24"),
            ("192.0.2.0/33", "from 0 to 32"),
            ("192.0.2.0/", "from 0 to 32"),
            ("192.0.2.0/-1", "from 0 to 32"),
            ("2001:db8::/129", "from 0 to 128"),
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("2001:db8::1/32", "write 2001:db8::/32"),
        ] {
            let said = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
