//! `[link]`: the satellite link whose queue the service owns.

use std::net::SocketAddr;
use std::path::PathBuf;

use perigee_share::Policy;
use perigee_text::{Content, Node, Read, Reader, StrictError};
use perigee_units::{Bytes, Rate, Time};

use super::network::Network;
use super::reader::list;

/// The satellite link, and who shares it.
#[derive(Clone, Debug, PartialEq)]
pub struct SatelliteLink {
    /// The name of the leg that crosses it.
    pub leg: String,
    /// The interface that leads to it.
    pub interface: String,
    /// Where its rates are known from.
    pub source: RateSource,
    /// Age from which a rate is not used any more.
    pub oldest: Time,
    /// Share of its rate that is used.
    pub share: f64,
    /// Bytes that the link adds to each packet of IP.
    pub overhead: u64,
    /// Largest share of the rate that is left to what bypasses the service.
    pub bypass: f64,
    /// Which transfers are short, and how much a subscriber saves for them.
    pub policy: Policy,
    /// Subscribers with settings of their own; the first that has a client's address.
    pub subscribers: Vec<SubscriberClass>,
    /// Settings of each address that none of them has.
    pub other: Portion,
}

/// Where the rates of the link are known from.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSource {
    /// They do not change.
    Fixed(Rates),
    /// Slots of the day, seconds since midnight, in order; UTC.
    Daily(Vec<(u64, Rates)>),
    /// A file with lines `SECONDS, SEND, RECEIVE`, read at the start and with each reload.
    Slots(PathBuf),
    /// A program prints them.
    Command(Vec<String>, Asking),
    /// An HTTP server says them.
    Http(SocketAddr, String, Asking),
}

/// How the modem is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Time from one answer to the next question.
    pub every: Time,
    /// Longest time for an answer.
    pub within: Time,
    /// Where the rates stand in an answer of JSON, names joined by dots; without both the answer is text.
    pub send_key: Option<String>,
    /// As `send_key`.
    pub receive_key: Option<String>,
}

/// Rates of a link; a direction without one is not shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The rate of what this host sends onto the link.
    pub send: Option<Rate>,
    /// The rate of what it receives.
    pub receive: Option<Rate>,
}

/// Subscribers with settings of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberClass {
    /// Its name in status and metrics.
    pub name: String,
    /// Its clients.
    pub sources: Vec<Network>,
    /// Whether each address is a subscriber, instead of all together.
    pub is_each: bool,
    /// Its part of the link.
    pub portion: Portion,
}

/// The part of the link that a subscriber has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Relative to others.
    pub weight: u32,
    /// Rate that it gets before others get more than theirs.
    pub floor: Rate,
    /// Rate that it never exceeds.
    pub ceiling: Rate,
}

pub(super) fn read_link(table: &Reader<'_>) -> Result<SatelliteLink, StrictError> {
    let class = |table: Result<Reader<'_>, StrictError>| {
        let table = table?;
        Ok(SubscriberClass {
            name: table.get("name")?,
            sources: table.get("sources")?,
            is_each: table.get("each")?,
            portion: read_portion(&table, table.get("weight")?)?,
        })
    };
    let subscribers: Vec<SubscriberClass> = table.each("subscribers")?.map(class).collect::<Result<_, _>>()?;
    for (at, one) in subscribers.iter().enumerate() {
        if subscribers[..at].iter().any(|other| other.name == one.name) {
            let message = format!("the name `{}` is taken", one.name);
            return Err(table.error("subscribers", message, "give each of `[[link.subscribers]]` a name of its own"));
        }
    }
    Ok(SatelliteLink {
        leg: table.get("leg")?,
        interface: table.get("interface")?,
        source: read_source(table)?,
        oldest: table.get("oldest")?,
        share: table.get("share")?,
        overhead: table.get("overhead")?,
        bypass: table.get("bypass")?,
        policy: Policy { short: table.get("short")?, memory: table.get("memory")?, savings: table.get("savings")? },
        subscribers,
        other: read_portion(table, 1)?,
    })
}

fn read_portion(table: &Reader<'_>, weight: u32) -> Result<Portion, StrictError> {
    let floor = table.table.get("floor")?.unwrap_or(Rate::ZERO);
    let ceiling = table.table.get("ceiling")?.unwrap_or(Rate::UNLIMITED);
    if floor > ceiling {
        return Err(table.error("floor", format!("a floor of {floor} is above the ceiling"), "lower it"));
    }
    Ok(Portion { weight, floor, ceiling })
}

/// The one source of rates that is given.
fn read_source(table: &Reader<'_>) -> Result<RateSource, StrictError> {
    let fixed = read_rates(table)?;
    let daily = table.each("schedule")?.map(|slot| {
        let slot = slot?;
        let DayTime(at) = slot.get("at")?;
        Ok((at, read_rates(&slot)?))
    });
    let mut daily: Vec<(u64, Rates)> = daily.collect::<Result<_, StrictError>>()?;
    daily.sort_by_key(|(at, _)| *at);
    let asking = Asking {
        every: table.get("every")?,
        within: table.get("within")?,
        send_key: table.table.get("send_key")?,
        receive_key: table.table.get("receive_key")?,
    };
    let command: Vec<String> = list(table, "command")?;
    let modem: Option<Url> = table.table.get("modem")?;
    let slots: Option<String> = table.table.get("slots")?;
    let mut given = Vec::new();
    given.extend((fixed != Rates::default()).then_some(RateSource::Fixed(fixed)));
    given.extend((!daily.is_empty()).then_some(RateSource::Daily(daily)));
    given.extend(slots.map(|path| RateSource::Slots(path.into())));
    given.extend((!command.is_empty()).then(|| RateSource::Command(command, asking.clone())));
    given.extend(modem.map(|Url(address, path)| RateSource::Http(address, path, asking)));
    if let (Some(source), true) = (given.pop(), given.is_empty()) {
        return Ok(source);
    }
    let message = "the rate of the link has to be known from one source";
    let fix = "give `send` and `receive`, or `[[link.schedule]]`, or `slots`, or `command`, or `modem`";
    Err(StrictError::new(table.table.origin, message, fix))
}

fn read_rates(table: &Reader<'_>) -> Result<Rates, StrictError> {
    Ok(Rates { send: table.table.get("send")?, receive: table.table.get("receive")? })
}

/// A time of the day, seconds since midnight.
pub(super) struct DayTime(u64);

impl Read for DayTime {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let text = String::read(node, what)?;
        let parts = text.split_once(':').and_then(|(hours, minutes)| {
            let [hours, minutes] = [hours, minutes].map(|part| part.parse::<u64>().ok().filter(|_| part.len() == 2));
            Some((hours.filter(|hours| *hours < 24)?, minutes.filter(|minutes| *minutes < 60)?))
        });
        let (hours, minutes) = parts.ok_or_else(|| {
            StrictError::new(&node.origin, format!("`{text}` is not a time of the day"), "write `\"06:30\"`, in UTC")
        })?;
        Ok(Self(hours * 3600 + minutes * 60))
    }
}

/// The address and the path of a plain HTTP URL.
pub(super) struct Url(SocketAddr, String);

impl Read for Url {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let text = String::read(node, what)?;
        let parts = text.strip_prefix("http://").and_then(|rest| {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let address = host.parse().or_else(|_| format!("{host}:80").parse()).ok()?;
            let path = if path.is_empty() { "/" } else { path };
            path.bytes().all(|byte| byte.is_ascii_graphic()).then(|| Self(address, path.to_owned()))
        });
        parts.ok_or_else(|| {
            let message = format!("`{text}` is not a plain HTTP address");
            StrictError::new(&node.origin, message, "write `\"http://192.168.100.1/rate\"`, with an IP address")
        })
    }
}

/// The words of a command, the first of which is the path of a program.
pub(super) struct Words;

impl Read for Words {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let words = Vec::<String>::read(node, what)?;
        if matches!(node.content, Content::Array(_)) && words.first().is_some_and(|word| word.starts_with('/')) {
            return Ok(Self);
        }
        let message = format!("`{what}` does not begin with the whole path of a program");
        Err(StrictError::new(&node.origin, message, "write `[\"/usr/local/bin/modem-rate\"]`"))
    }
}

/// Largest of sizes that a subscriber may have for itself.
pub(super) const LARGEST: Bytes = Bytes::new(1 << 40);
