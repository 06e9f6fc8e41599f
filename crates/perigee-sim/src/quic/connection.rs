//! The two ends of a QUIC connection: their datagrams and their timers.

use perigee_quic::{
    AckFrequency, AddressValidation, Closed, Config, EarlyData, Ecn, Endpoint, Info, Keys, Limits, Ticket,
};
use perigee_results::{FlowRow, SenderCounts, SenderLimits, SenderState};
use perigee_study::{FlowSpec, Opener, Quic, QuicHandshake};
use perigee_traffic::End;
use perigee_units::{Bytes, Stream, Time};

use super::carrier::{Carrier, MakeKeys, Place, Wake};
use super::end::QuicEnd;
use crate::packet::UDP_HEADER;

/// The common part of a flow's connections.
#[derive(Clone, Copy)]
pub(crate) struct OfFlow<'a> {
    pub(crate) spec: &'a FlowSpec,
    pub(crate) quic: &'a Quic,
    pub(crate) stream_window: u64,
    /// The nodes at which ends keep a log.
    pub(crate) logged: &'a [u32],
    /// Real keys; `None`: none.
    pub(crate) keys: Option<&'a (dyn MakeKeys + Sync)>,
}

/// The state of a connection for the columns of its flow.
pub(crate) struct QuicColumns {
    handshake: String,
    cause: String,
    streams: u64,
    info: Info,
    limits: Limits,
}

impl QuicColumns {
    /// Packets that the sender of the data has sent.
    pub(crate) fn counts(&self) -> SenderCounts {
        SenderCounts { packets: Some(self.info.sent_datagrams), retransmitted: None }
    }

    /// These of one connection, with those of others: sums, the first handshake, and the first cause. What limited senders is of
    /// each alone, since they send at the same time.
    pub(crate) fn joined(mut self, others: Option<Self>) -> Self {
        let Some(others) = others else { return self };
        if !others.handshake.is_empty() {
            self.handshake = others.handshake;
        }
        if !others.cause.is_empty() {
            self.cause = others.cause;
        }
        self.streams += others.streams;
        let (mine, theirs) = (&mut self.info, &others.info);
        mine.sent_datagrams += theirs.sent_datagrams;
        mine.lost += theirs.lost;
        mine.spurious_losses += theirs.spurious_losses;
        mine.probe_timeouts = mine.probe_timeouts.zip(theirs.probe_timeouts).map(|(one, other)| one + other);
        self
    }

    pub(crate) fn fill(&self, row: &mut FlowRow) {
        let info = &self.info;
        row.transport = "quic".into();
        row.handshake = self.handshake.as_str().into();
        row.cause = self.cause.as_str().into();
        row.streams = Some(self.streams);
        row.rto_count = info.probe_timeouts.map(|count| count as u32);
        row.lost_packets = Some(info.lost);
        row.spurious_losses = Some(info.spurious_losses);
    }

    /// Adds what limited the sender of a flow that is one connection.
    pub(crate) fn fill_limits(&self, row: &mut FlowRow) {
        let limits = &self.limits;
        row.limited_by = longest(limits).into();
        row.set_limits(&SenderLimits {
            busy: Some(limits.busy),
            peer_window: Some(limits.flow_control),
            send_buffer: None,
            application: Some(limits.application),
        });
    }
}

/// The limit that kept a sender from sending for the longest time; of equals the first.
fn longest(limits: &Limits) -> &'static str {
    let each = [
        ("congestion_window", limits.window),
        ("pacing", limits.pacing),
        ("flow_control", limits.flow_control),
        ("application", limits.application),
        ("handshake", limits.handshake),
    ];
    let most = each.iter().map(|(_, time)| *time).max().unwrap_or_default();
    each.iter().find(|(_, time)| *time == most && most > Time::ZERO).map_or("", |(name, _)| name)
}

pub(crate) struct QuicConnection {
    pub(crate) ends: [QuicEnd; 2],
    pub(crate) opener: End,
    /// Its number among those of its flow that are open.
    number: u32,
    /// Time of the timer event of each end; [`Time::MAX`] if none is set.
    due: [Time; 2],
    /// Length of the headers of a packet, bytes.
    headers: u16,
    path_mtu: u16,
    handshake: QuicHandshake,
    retry: bool,
    marks: bool,
    /// The datagram that is about to leave.
    datagram: Vec<u8>,
    /// Datagrams under way, as far as they are counted.
    pub(crate) outstanding: u32,
    /// A datagram of either end was larger than a link takes.
    was_too_large: bool,
    /// The sender of the data has ceased to send ECN-capable packets.
    is_bleached: bool,
    /// Whether something has arrived at the end that opens the connection.
    was_answered: bool,
}

impl QuicConnection {
    /// A connection of a flow, whose streams carry one message each if `stream_per_message`.
    pub(crate) fn new(of: OfFlow<'_>, number: u32, mut seeds: Stream, stream_per_message: bool) -> Self {
        let OfFlow { spec, quic, stream_window, logged, keys } = of;
        let opener = match quic.opened_by {
            Opener::Sender => End::From,
            Opener::Receiver => End::To,
        };
        let sends_early = quic.handshake != QuicHandshake::OneRtt;
        let makes = |takes_early_data| keys.map(|keys| keys.keys(takes_early_data)).unwrap_or_default();
        let [client_keys, visited] = makes(true);
        let ticket = sends_early.then(|| ticket(quic, stream_window, [client_keys.clone(), visited.clone()])).flatten();
        let server_keys =
            if quic.handshake == QuicHandshake::ZeroRttRejected { makes(false)[1].clone() } else { visited };
        let mut end = |end: End| {
            let (is_client, seed) = (end == opener, seeds.next_u64());
            let mut config = config(quic, stream_window, is_client);
            config.qlog = logged.contains(if end == End::From { &spec.from } else { &spec.to });
            config.keys = if is_client { client_keys.clone() } else { server_keys.clone() };
            config.early_data = match (is_client, quic.handshake, &ticket) {
                (true, _, Some(ticket)) => EarlyData::Resumed(Box::new(ticket.clone())),
                (false, QuicHandshake::ZeroRtt, _) => EarlyData::Accepted,
                _ => EarlyData::Off,
            };
            let endpoint = if is_client { Endpoint::client(&config, seed) } else { Endpoint::server(&config, seed) };
            QuicEnd::new(endpoint, is_client, stream_per_message, is_client && sends_early)
        };
        Self {
            ends: [end(End::From), end(End::To)],
            opener,
            number,
            due: [Time::MAX; 2],
            headers: spec.ip.header_bytes() + UDP_HEADER,
            path_mtu: spec.path_mtu.unwrap_or(u16::MAX),
            handshake: quic.handshake,
            retry: quic.retry,
            marks: quic.ecn,
            datagram: Vec::new(),
            outstanding: 0,
            was_too_large: false,
            is_bleached: false,
            was_answered: false,
        }
    }

    pub(crate) fn open(&mut self, now: Time) {
        self.ends[self.opener as usize].open(now);
    }

    /// The end that opens it.
    pub(crate) fn client(&mut self) -> &mut QuicEnd {
        &mut self.ends[self.opener as usize]
    }

    /// A datagram arrives at an end; its application may have something to do.
    pub(crate) fn arrived(&mut self, now: Time, end: End, datagram: &[u8], ecn: Ecn) {
        self.was_answered |= end == self.opener;
        let host = &mut self.ends[end as usize];
        host.endpoint.on_datagram(now, datagram, ecn);
        host.take_events();
        self.dropped();
    }

    /// A datagram is under way no more.
    pub(crate) fn dropped(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Closes the connection if the application of its client has closed its half.
    pub(crate) fn close_if_done(&mut self, now: Time) {
        let client = self.client();
        if client.has_closed && client.closed().is_none() {
            client.endpoint.close(now, 0);
        }
    }

    /// Whether both ends are gone, and none of its datagrams is in the network.
    pub(crate) fn is_over(&self) -> bool {
        self.outstanding == 0 && self.due == [Time::MAX; 2]
    }

    /// Runs the timers of an end that are due.
    pub(crate) fn on_timer(&mut self, now: Time, end: End) {
        self.due[end as usize] = Time::MAX;
        self.ends[end as usize].endpoint.on_timer(now);
        self.ends[end as usize].take_events();
    }

    /// Sends all that an end has to send, and sets when its timers are due.
    pub(crate) fn transmit(&mut self, now: Time, end: End, carrier: &mut dyn Carrier) {
        let place = Place { leg: self.number, end };
        let host = &mut self.ends[end as usize];
        while let Some(ecn) = host.endpoint.poll_transmit(now, &mut self.datagram) {
            if end == End::From && self.marks && host.endpoint.is_connected() {
                self.is_bleached |= ecn == Ecn::NotEct;
            }
            if self.datagram.len() as u16 + self.headers > self.path_mtu {
                // It may not be cut up (RFC 9000, section 14), and no discovery finds a size that passes.
                self.was_too_large = true;
                continue;
            }
            self.outstanding += u32::from(carrier.send(now, place, &self.datagram, ecn));
        }
        host.take_events();
        let next = host.endpoint.next_timer().unwrap_or(Time::MAX);
        if std::mem::replace(&mut self.due[end as usize], next) != next {
            carrier.wake(Wake::Timer(place), next);
        }
    }

    /// The logs of its ends.
    pub(crate) fn take_qlogs(&mut self) -> impl Iterator<Item = (End, Vec<u8>)> + '_ {
        [End::From, End::To].into_iter().filter_map(|end| Some((end, self.ends[end as usize].endpoint.take_qlog()?)))
    }

    /// When an end's timer is due that `due` does not have, if there is one.
    pub(crate) fn missed_timer(&self, due: &dyn Fn(Place) -> Option<Time>) -> Option<Time> {
        [End::From, End::To].into_iter().find_map(|end| {
            let at = self.ends[end as usize].endpoint.next_timer()?;
            due(Place { leg: self.number, end }).is_none_or(|due| due > at).then_some(at)
        })
    }

    /// The columns of its flow at `now`.
    pub(crate) fn columns(&mut self, now: Time) -> QuicColumns {
        let client = &self.ends[self.opener as usize];
        let early = if client.was_refused { "0-rtt-rejected" } else { "0-rtt" };
        let handshake = if self.handshake == QuicHandshake::OneRtt { "1-rtt" } else { early };
        let handshake = if self.retry { format!("retry, {handshake}") } else { handshake.to_owned() };
        let handshake = if client.endpoint.is_connected() { handshake } else { String::new() };
        let cause = self.cause();
        let sender = &mut self.ends[End::From as usize];
        let streams = sender.streams();
        QuicColumns { handshake, cause, streams, info: sender.endpoint.info(), limits: sender.endpoint.limits(now) }
    }

    /// The cause of what went wrong, in the words of the column `cause`.
    fn cause(&self) -> String {
        let [from, to] = self.ends.each_ref().map(QuicEnd::closed);
        let mismatch = [from, to].contains(&Some(&Closed::VersionMismatch));
        let error = [from, to].into_iter().flatten().find_map(|closed| match closed {
            Closed::Error(words) => Some(words.clone()),
            _ => None,
        });
        let client = &self.ends[self.opener as usize];
        let has_timed_out = [from, to].contains(&Some(&Closed::TimedOut));
        let is_open = self.ends.iter().all(|end| end.endpoint.is_connected());
        match () {
            () if mismatch => "version".to_owned(),
            () if self.was_too_large => "mtu".to_owned(),
            () if !self.was_answered => "no_answer".to_owned(),
            () if has_timed_out && !is_open => "handshake".to_owned(),
            () if has_timed_out => "idle".to_owned(),
            () if self.is_bleached => "ecn_bleached".to_owned(),
            () if client.was_refused => "0-rtt-rejected".to_owned(),
            () => error.unwrap_or_default(),
        }
    }

    /// Packets that the sender of the data has sent.
    pub(crate) fn counts(&mut self) -> SenderCounts {
        let info = self.ends[End::From as usize].endpoint.info();
        SenderCounts { packets: Some(info.sent_datagrams), retransmitted: None }
    }

    /// The state of the sender.
    pub(crate) fn state(&mut self, acked: u64) -> SenderState {
        let info = self.ends[End::From as usize].endpoint.info();
        SenderState {
            acked_bytes: acked,
            sacked_bytes: None,
            cwnd_packets: Some(info.cwnd),
            ssthresh_packets: info.ssthresh,
            srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
            inflight_packets: info.inflight,
            pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
        }
    }
}

/// The settings of an end.
fn config(quic: &Quic, stream_window: u64, is_client: bool) -> Config {
    let is_usual = (quic.ack_threshold, quic.max_ack_delay) == USUAL_ACKNOWLEDGEMENTS;
    let ack_frequency = AckFrequency { packets: quic.ack_threshold, delay: Some(quic.max_ack_delay) };
    Config {
        datagram_bytes: quic.datagram,
        initial_window: quic.initial_window,
        stream_window,
        connection_window: quic.window.map_or(u64::MAX, Bytes::as_u64),
        send_window: stream_window.saturating_mul(SEND_WINDOW),
        ack_frequency: (!is_usual).then_some(ack_frequency),
        idle_timeout: Some(quic.idle_timeout),
        address_validation: if quic.retry { AddressValidation::Retry } else { AddressValidation::Handshake },
        version: if is_client || quic.same_version { VERSION_1 } else { DRAFT_29 },
        ecn: quic.ecn,
        ..Config::with(quic.cc.clone())
    }
}

/// The ticket of a client's earlier connection to the server, which needs no time here; real keys keep theirs.
fn ticket(quic: &Quic, stream_window: u64, [client, server]: [Keys; 2]) -> Option<Ticket> {
    let version = Quic { same_version: true, retry: false, ..quic.clone() };
    let config = |keys, is_client| Config { keys, ..config(&version, stream_window, is_client) };
    let (client, server) = (config(client, true), config(server, false));
    let (mut client, mut server) = (Endpoint::client(&client, 0), Endpoint::server(&server, 0));
    let (mut now, mut datagram) = (Time::ZERO, Vec::new());
    client.open(now);
    for _ in 0..TURNS {
        now += Time::from_millis(1);
        while let Some(ecn) = client.poll_transmit(now, &mut datagram) {
            server.on_datagram(now, &datagram, ecn);
        }
        while let Some(ecn) = server.poll_transmit(now, &mut datagram) {
            client.on_datagram(now, &datagram, ecn);
        }
    }
    client.ticket()
}

/// Acknowledgements without the extension for their frequency (RFC 9000, sections 13.2.2 and 18.2).
const USUAL_ACKNOWLEDGEMENTS: (u32, Time) = (1, Time::from_millis(25));
/// Data of a connection that may be unacknowledged, in windows of a stream: the stack's default.
const SEND_WINDOW: u64 = 8;
/// Turns in which a handshake without losses is complete, and the server has given its ticket.
const TURNS: u32 = 10;
const VERSION_1: u32 = 1;
const DRAFT_29: u32 = 0xff00_001d;
