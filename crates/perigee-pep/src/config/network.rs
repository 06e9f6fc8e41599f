//! Networks in prefix notation, and addresses that a proxy does not dial.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An IPv4 or IPv6 network: `192.0.2.0/24`, `2001:db8::/32`, or one address.
///
/// ```
/// use perigee_pep::Network;
/// let network: Network = "192.0.2.0/24".parse().unwrap();
/// assert!(network.contains("192.0.2.9".parse().unwrap()));
/// assert!(!network.contains("198.51.100.1".parse().unwrap()));
/// assert_eq!("2001:db8::1".parse::<Network>().unwrap().to_string(), "2001:db8::1/128");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether it contains an address; an IPv4 address in IPv6 notation counts as the IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let (bits, own) = (bits(address.to_canonical()), bits(self.address));
        bits.1 == own.1 && bits.0 & mask(self.prefix, own.1) == own.0
    }

    /// Its first address.
    pub(crate) fn first(self) -> IpAddr {
        self.address
    }

    /// Its addresses behind the first one, `most` of them at most; that one if it has no other.
    pub(crate) fn hosts(self, most: u128) -> impl Iterator<Item = IpAddr> {
        let (first, width) = bits(self.address);
        let last = !mask(self.prefix, width) & (u128::MAX >> (128 - u32::from(width)));
        let address = move |offset: u128| match width {
            32 => IpAddr::from(((first + offset) as u32).to_be_bytes()),
            _ => IpAddr::from((first + offset).to_be_bytes()),
        };
        (last.min(1)..=last.min(most)).map(address)
    }

    /// Whether it contains another network.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    /// Length of its prefix, bits.
    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether it contains all addresses of its version.
    pub(crate) fn is_all(self) -> bool {
        self.prefix == 0
    }

    /// Whether it is a network of IPv6.
    pub(crate) fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }
}

impl From<IpAddr> for Network {
    /// The network of one address.
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: bits(address).1 }
    }
}

impl FromStr for Network {
    type Err = String;

    /// Reads prefix notation; the error is a sentence.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| format!("`{text}` is not a network"))?;
        let (value, width) = bits(address);
        let prefix = match prefix.map(str::parse::<u8>) {
            None => width,
            Some(Ok(prefix)) if prefix <= width => prefix,
            Some(_) => return Err(format!("`{text}` has no prefix length from 0 to {width}")),
        };
        if value & mask(prefix, width) != value {
            return Err(format!("`{text}` has bits beyond its prefix length"));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Why an address is never a server, regardless of the configuration; `None` if it may be.
pub(crate) fn never(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        address if address.is_unspecified() => Some("unspecified address"),
        address if address.is_multicast() => Some("multicast address"),
        IpAddr::V4(address) if address.is_broadcast() => Some("broadcast address"),
        _ => None,
    }
}

/// Whether an address is loopback or link-local.
pub(crate) fn is_local_form(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
    }
}

/// An address as a number, and its width in bits.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn mask(prefix: u8, width: u8) -> u128 {
    let ones = u128::MAX >> (128 - u32::from(width));
    ones & !ones.checked_shr(u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_shares_its_prefix() {
        for (network, address, inside) in [
            ("0.0.0.0/0", "203.0.113.5", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.5", false),
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_reason() {
        for (text, reason) in [
            ("lan", "`lan` is not a network"),
            ("10.0.0.0/33", "`10.0.0.0/33` has no prefix length from 0 to 32"),
            ("10.0.0.1/8", "`10.0.0.1/8` has bits beyond its prefix length"),
            ("::/-1", "`::/-1` has no prefix length from 0 to 128"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err(), reason);
        }
    }

    #[test]
    fn addresses_of_the_host_and_its_link_are_known_by_their_form() {
        for address in ["127.0.0.1", "127.9.9.9", "::1", "169.254.0.1", "fe80::1", "::ffff:127.0.0.1", "0.1.2.3"] {
            assert!(is_local_form(address.parse().unwrap()), "{address}");
        }
        for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:0.0.0.0"] {
            assert!(never(address.parse().unwrap()).is_some(), "{address}");
        }
        assert!(!is_local_form("192.0.2.1".parse().unwrap()));
    }
}
