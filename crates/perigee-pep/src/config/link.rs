//! `[link]`: the satellite link whose queue the service owns.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use perigee_share::Policy;
use perigee_text::Origin;
use perigee_units::{Rate, Time};

use super::network::Network;

/// The satellite link, and who shares it.
#[derive(Clone, Debug, PartialEq)]
pub struct SatelliteLink {
    /// The name of the leg that crosses it.
    pub leg: String,
    /// The interface that leads to it.
    pub interface: String,
    /// Where its rates are known from.
    pub source: RateSource,
    /// Where the configuration says that.
    pub source_at: Origin,
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

impl SatelliteLink {
    /// Name of subscribers that no table has, in metrics.
    pub(crate) const OTHERS: &str = "others";
    /// Rates that one may have: slower links are hardly one page's, faster ones do not exist.
    pub(crate) const RATES: RangeInclusive<Rate> = Rate::from_bps(64_000)..=Rate::from_bps(400_000_000_000);

    /// Returns the part of a rate that the service may use, beside what others use of it, bit/s.
    pub(crate) fn usable(&self, rate: Rate, others: u64) -> Rate {
        let scaled = |share: f64| (rate.as_bps() as f64 * share) as u64;
        Rate::from_bps(scaled(self.share).saturating_sub(others.min(scaled(self.bypass))))
    }

    /// The place among [`SatelliteLink::subscribers`] of the table that has a client's address.
    pub(crate) fn table_of(&self, client: IpAddr) -> Option<usize> {
        self.subscribers.iter().position(|table| table.sources.iter().any(|network| network.contains(client)))
    }

    /// Whether another link has all settings of this one, wherever its configuration has them.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        *self == Self { source_at: self.source_at.clone(), ..other.clone() }
    }
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
