//! A completed transfer, and the state of the host's socket towards the server during it.

use std::os::fd::AsFd;

use perigee_units::Time;
use rustix::net::sockopt;
use serde_json::{json, Value};

use super::fetch::Fetched;
use crate::host::sys::TcpInfo;

/// The way of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Direct,
    Proxied,
}

/// A completed transfer.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) round: u32,
    pub(super) way: Via,
    pub(super) fetched: Fetched,
    pub(super) leg: ServerLeg,
}

/// State of the host's socket towards the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLeg {
    pub(super) info: TcpInfo,
    pub(super) congestion: String,
}

impl Via {
    /// Name in sentences.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Direct => "directly",
            Self::Proxied => "through the proxy",
        }
    }

    /// Name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxied => "proxied",
        }
    }
}

impl Transfer {
    /// Bytes of the file over the time from the start to the last byte, bit/s.
    pub(super) fn goodput_bps(&self) -> f64 {
        let time = self.fetched.total.as_secs_f64();
        if time > 0.0 {
            8.0 * self.fetched.content.bytes() as f64 / time
        } else {
            0.0
        }
    }

    /// Cells of its line in the table.
    pub(super) fn cells(&self) -> [String; 10] {
        let ms = |time: Time| format!("{:.1} ms", time.as_millis_f64());
        let ServerLeg { info, congestion } = &self.leg;
        [
            self.round.to_string(),
            self.way.name().to_owned(),
            ms(self.fetched.handshake),
            ms(self.fetched.first_byte),
            format!("{:.2} Mbit/s", self.goodput_bps() / 1e6),
            self.fetched.content.bytes().to_string(),
            ms(Time::from_micros(info.rtt_us.into())),
            info.retransmitted.to_string(),
            info.out_of_order.to_string(),
            congestion.clone(),
        ]
    }

    /// As a JSON object.
    pub(super) fn as_json(&self) -> Value {
        let ServerLeg { info, congestion } = &self.leg;
        json!({
            "round": self.round,
            "way": self.way.name(),
            "handshake_ms": self.fetched.handshake.as_millis_f64(),
            "first_byte_ms": self.fetched.first_byte.as_millis_f64(),
            "seconds": self.fetched.total.as_secs_f64(),
            "goodput_mbps": self.goodput_bps() / 1e6,
            "bytes": self.fetched.content.bytes(),
            "complete": self.fetched.content.is_complete,
            "rtt_ms": f64::from(info.rtt_us) / 1e3,
            "retransmitted": info.retransmitted,
            "out_of_order": info.out_of_order,
            "congestion": congestion,
        })
    }
}

impl ServerLeg {
    /// Reads the state; a closed socket keeps the last one.
    pub(super) fn look(&mut self, socket: impl AsFd) {
        let socket = socket.as_fd();
        self.info = TcpInfo::of(socket).unwrap_or(self.info);
        self.congestion = sockopt::tcp_congestion(socket).unwrap_or_default();
    }
}
