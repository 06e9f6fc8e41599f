//! The file of a web server that is transferred: `http://HOST:PORT/PATH`, or `HOST:PORT/PATH`.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use crate::version::VERSION;

/// A file over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port, as the request names them.
    authority: String,
    /// Begins with a slash.
    path: String,
}

impl Target {
    /// Reads one; the error has the fix.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (rest, has_scheme) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (rest, true),
            Some((scheme, _)) => {
                return Err(format!(
                    "`{text}`: `{scheme}` is not supported; name a plain target, http://HOST:PORT/PATH"
                ));
            }
            None => (text, false),
        };
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(format!("`{text}` has spaces or characters beyond ASCII; write them as %20 and so on"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if authority.contains('@') {
            return Err(format!("`{text}` contains a user name; remove it"));
        }
        if authority.parse::<Ipv6Addr>().is_ok() {
            return Err(format!("`{text}` has no brackets; write [{authority}]:80{path}"));
        }
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map(|(_, port)| port);
        match port.map(str::parse::<u16>) {
            Some(Ok(1..)) if !authority.starts_with(':') => Ok(Self { authority: authority.to_owned(), path }),
            None if has_scheme && !authority.is_empty() => Ok(Self { authority: format!("{authority}:80"), path }),
            _ => Err(format!("`{text}` has no host and port; write http://HOST:PORT/PATH or HOST:PORT/PATH")),
        }
    }

    /// The server's first address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, String> {
        let found = self.authority.to_socket_addrs().map_err(|error| error.to_string());
        let first = found.and_then(|mut all| all.next().ok_or_else(|| "it has no address".to_owned()));
        first.map_err(|why| format!("{}: {why}; name a host that this one can resolve", self.authority))
    }

    /// The request; a server that speaks HTTP/1.0 neither keeps the connection nor divides the file into chunks.
    pub(crate) fn request(&self) -> String {
        let Self { authority, path } = self;
        format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nUser-Agent: perigee-pep/{VERSION}\r\nAccept: */*\r\n\r\n")
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_host_a_port_and_a_path() {
        for (text, shown, address) in [
            ("http://192.0.2.1:8000/a/b?c=1#d", "http://192.0.2.1:8000/a/b?c=1", "192.0.2.1:8000"),
            ("192.0.2.1:8000", "http://192.0.2.1:8000/", "192.0.2.1:8000"),
            ("HTTP://192.0.2.1", "http://192.0.2.1:80/", "192.0.2.1:80"),
            ("192.0.2.1:8000?c=1", "http://192.0.2.1:8000/?c=1", "192.0.2.1:8000"),
            ("[2001:db8::1]:8000/f", "http://[2001:db8::1]:8000/f", "[2001:db8::1]:8000"),
            ("http://[2001:db8::1]/f", "http://[2001:db8::1]:80/f", "[2001:db8::1]:80"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.resolve().unwrap(), address.parse().unwrap(), "{text}");
        }
        let request = Target::parse("[2001:db8::1]:8000/f").unwrap().request();
        assert!(request.starts_with("GET /f HTTP/1.0\r\nHost: [2001:db8::1]:8000\r\n"), "{request}");
    }

    #[test]
    fn what_is_no_plain_target_is_refused_with_the_fix() {
        for (text, fix) in [
            ("https://192.0.2.1/f", "`https` is not supported; name a plain target, http://HOST:PORT/PATH"),
            ("192.0.2.1/f", "has no host and port; write http://HOST:PORT/PATH or HOST:PORT/PATH"),
            ("192.0.2.1:0/f", "has no host and port"),
            ("192.0.2.1:70000", "has no host and port"),
            (":80", "has no host and port"),
            ("http://", "has no host and port"),
            ("2001:db8::1", "has no brackets; write [2001:db8::1]:80/"),
            ("user@192.0.2.1:80", "contains a user name; remove it"),
            ("192.0.2.1:80/a b\r\nX: y", "has spaces or characters beyond ASCII; write them as %20 and so on"),
        ] {
            let said = Target::parse(text).unwrap_err();
            assert!(said.contains(fix), "{text}: {said}");
        }
    }
}
