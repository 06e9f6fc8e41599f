//! The vantage point of a capture on one direction of a connection, the size of a full segment, and how round trips are
//! measured there.

use perigee_units::Time;

use crate::side::Side;
use crate::survey::ConnectionSummary;

/// How round trips are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundTrips {
    /// From data to their acknowledgement.
    Acknowledgements,
    /// From an acknowledgement to the first data that echo its timestamp.
    Timestamps,
    /// The sum of both, between the ends.
    Both,
    /// The handshake's alone.
    Handshake,
    None,
}

impl Side {
    /// The place by the shortest times from it to either end and back, unless captures of both ends have settled it.
    ///
    /// On a path shorter than [`NEAR`] these times are those of hosts, not of the path: there, only what a queue on the path does
    /// tells the sides apart, if there is one.
    pub(crate) fn of(summary: &ConnectionSummary, way: usize) -> Self {
        if let Some(settled) = summary.sides[way] {
            return settled;
        }
        if summary.ways[way].is_unseen() {
            return Self::Unknown;
        }
        match (summary.reach(way), summary.reach(1 - way)) {
            (Some(to_receiver), Some(to_sender)) if to_receiver + to_sender >= NEAR => {
                if to_sender * FAR <= to_receiver {
                    Self::Sender
                } else if to_receiver * FAR <= to_sender {
                    Self::Receiver
                } else {
                    Self::Between
                }
            }
            // The capture has nothing of the other direction, or nothing to measure: data that wait for their
            // acknowledgements are not at the receiver.
            (Some(to_receiver), None) if to_receiver >= NEAR => Self::Sender,
            (None, _) => Self::Receiver,
            _ => Self::by_passing(summary, way),
        }
    }

    /// The place on a short path. Acknowledgements of earlier data that pass behind data show that these are still on their way to
    /// the receiver; data that were sent before an acknowledgement and pass behind it show that it is still on its way to the sender.
    fn by_passing(summary: &ConnectionSummary, way: usize) -> Self {
        if summary.key.is_local() {
            return Self::Sender;
        }
        if summary.ways.iter().any(|way| !way.has_timestamps) {
            return Self::Unknown;
        }
        let [to_receiver, to_sender] = [way, 1 - way].map(|way: usize| summary.ways[way].transit.mean());
        match (to_receiver, to_sender) {
            (Some(there), back) if back.is_none_or(|back| back * CLEARLY <= there) => Self::Sender,
            (there, Some(back)) if there.is_none_or(|there| there * CLEARLY <= back) => Self::Receiver,
            (Some(_), Some(_)) => Self::Between,
            _ => Self::Unknown,
        }
    }

    /// Whether the receiver is nearer than the sender: then data pass here before they are acknowledged.
    pub(crate) fn is_nearer_to_receiver(self, summary: &ConnectionSummary, way: usize) -> bool {
        match self {
            Self::Sender => false,
            Self::Receiver => true,
            Self::Between | Self::Unknown => summary.reach(way) < summary.reach(1 - way),
        }
    }
}

impl RoundTrips {
    pub(crate) fn of(summary: &ConnectionSummary, way: usize, side: Side) -> Self {
        let has_acknowledgements = summary.ways[way].has_acknowledgements;
        let has_timestamps = summary.ways.iter().all(|way| way.has_timestamps);
        match side {
            Side::Sender if has_acknowledgements => Self::Acknowledgements,
            Side::Between if has_acknowledgements && has_timestamps => Self::Both,
            Side::Receiver if has_timestamps => Self::Timestamps,
            _ if summary.opening.length().is_some() => Self::Handshake,
            _ => Self::None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledgements => "acknowledgements",
            Self::Timestamps => "timestamps",
            Self::Both => "both",
            Self::Handshake => "handshake",
            Self::None => "",
        }
    }
}

/// Payload of a full segment of one direction: as negotiated, or as inferred from the packets.
pub(crate) fn segment(summary: &ConnectionSummary, way: usize) -> u32 {
    let options = if summary.ways[way].has_timestamps { TIMESTAMPS } else { 0 };
    let announced = summary.ways.iter().filter_map(|way| way.mss).min().map(u32::from);
    let largest = summary.ways[way].largest;
    match announced {
        Some(mss) => mss.saturating_sub(options).max(LEAST),
        // Not larger than Ethernet carries, or a jumbo frame, unless it is several of the usual ones.
        None if largest <= USUAL - options => largest.max(LEAST),
        None if largest <= JUMBO && !largest.is_multiple_of(USUAL - options) => largest,
        None => USUAL - options,
    }
}

/// Both ends are nearer than this: hosts take as long as the path.
const NEAR: Time = Time::from_millis(1);
/// One end is this many times farther away than the other.
const CLEARLY: u64 = 8;
/// One end is this many times nearer than the other: less than two percent of a round trip is left out.
const FAR: u64 = 50;
const TIMESTAMPS: u32 = 12;
/// A segment of Ethernet's 1500 bytes.
const USUAL: u32 = 1460;
const JUMBO: u32 = 8960;
/// Linux's `TCP_MIN_MSS`.
const LEAST: u32 = 88;
