//! The ACKs of a train, all of one way, which a receiver sends together.

use perigee_tcp::Header;
use perigee_units::Time;

use crate::network::{Carried, Fate, Network};
use crate::packet::{Bare, Outlet};

pub(crate) struct Answers {
    times: [Time; MAX_TRAIN],
    headers: [Header; MAX_TRAIN],
    count: usize,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { times: [Time::ZERO; MAX_TRAIN], headers: [Header::default(); MAX_TRAIN], count: 0 }
    }

    /// Adds an ACK sent at `at`; at most [`MAX_TRAIN`] may wait.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: Time, header: Header) {
        let Self { times, headers, count } = self;
        (times[*count], headers[*count]) = (at, header);
        *count += 1;
    }

    /// Sends those that wait.
    #[inline]
    pub(crate) fn send(&mut self, outlet: Outlet, network: &mut Network) {
        let count = std::mem::take(&mut self.count);
        let (times, headers) = (&mut self.times[..count], &self.headers[..count]);
        let Some(first) = headers.first() else { return };
        let Bare { way, bytes, .. } = outlet.packet(first);
        let carried = network.carry_all(times, way, bytes);
        if let Carried::Delivers(link) = carried {
            return times.iter().zip(headers).for_each(|(at, header)| network.keep(*at, link, &outlet.packet(header)));
        }
        for (at, header) in times.iter().zip(headers) {
            let packet = outlet.packet(header);
            if let Fate::Delivered { at, link } = network.carry_on(*at, carried, packet) {
                network.keep(at, link, &packet);
            }
        }
    }
}

/// Maximum number of packets carried together.
pub(crate) const MAX_TRAIN: usize = 16;
