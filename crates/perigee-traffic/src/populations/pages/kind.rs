//! Page loads as a study describes them.

use std::fmt::{self, Display, Formatter};

use perigee_units::{encode_enum, encode_struct, Bytes, Encode, Time};

/// A browser that loads page after page, all of one kind, with an empty cache and no open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The content of a page.
    pub page: Page,
    /// Serial rounds beyond those of the page, one for each of its last objects, which become known one after the other. At most
    /// [`Page::most_rounds`].
    pub rounds: u32,
    /// The protocol of its connections.
    pub http: Http,
    /// Round trips of the TLS handshake of each connection.
    pub tls: u32,
    /// Size of the request for an object.
    pub request: Bytes,
    /// Time from the arrival of a request to the response.
    pub service: Time,
    /// Time from the end of a load to the start of the next.
    pub pause: Time,
}

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Objects at random, after their types.
    Drawn(PageKind),
    /// A document of the first size, and objects of the others, which it names; all at one server.
    Listed(Vec<Bytes>),
}

/// Kinds of pages, by their objects; see `docs/models/users.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// The 10th percentile of each type.
    Small,
    /// The median of each type.
    Median,
    /// The 90th percentile of each type.
    Heavy,
    /// One of the three, with equal chances, for each load.
    Mix,
}

/// How a browser's connections carry requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// One request at a time on a connection, and up to six connections to a server (HTTP/1.1).
    OneAtATime,
    /// All requests at once on one connection to a server, with responses that take turns (HTTP/2).
    Multiplexed,
    /// All requests at once, with a stream of the connection for each response, which the transport serves in turn (HTTP/3).
    Streams,
}

impl Display for Page {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drawn(kind) => write!(f, "{kind} pages"),
            Self::Listed(sizes) => {
                let together = Bytes::new(sizes.iter().map(|size| size.as_u64()).sum());
                write!(f, "pages of {} objects, {together}", sizes.len())
            }
        }
    }
}

impl Display for Pages {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}, {} between two", self.page, self.http, self.pause)?;
        match self.rounds {
            0 => Ok(()),
            1 => f.write_str(", 1 more serial round"),
            rounds => write!(f, ", {rounds} more serial rounds"),
        }
    }
}

impl PageKind {
    /// Names in studies.
    pub const WORDS: &'static [&'static str] = &["small", "median", "heavy", "mix"];

    /// The kind of a name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Small, Self::Median, Self::Heavy, Self::Mix].into_iter().find(|kind| kind.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Median => "median",
            Self::Heavy => "heavy",
            Self::Mix => "mix",
        }
    }
}

impl Http {
    /// Names in studies: the identifiers of ALPN.
    pub const WORDS: &'static [&'static str] = &["http/1.1", "h2"];

    /// The version of a name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "http/1.1" => Some(Self::OneAtATime),
            "h2" => Some(Self::Multiplexed),
            _ => None,
        }
    }
}

impl Display for PageKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Display for Http {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneAtATime => "HTTP/1.1",
            Self::Multiplexed => "HTTP/2",
            Self::Streams => "HTTP/3",
        })
    }
}

impl Encode for PageKind {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl Encode for Http {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{self}")
    }
}

encode_struct!(Pages { page, rounds, http, tls, request, service, pause });
encode_enum!(Page { Drawn(kind), Listed(sizes) });
