//! The two endpoints of a TCP connection in the network: their packets and their timer events.

use perigee_cc::Selected;
use perigee_results::{Measure, SenderCounts, SenderLimits, SenderState};
use perigee_settings::Config;
use perigee_tcp::{Endpoint, Header, Info, Limits, Segment};
use perigee_traffic::End;
use perigee_units::Time;

use crate::application::Stream;
use crate::checks;
use crate::log::Log;
use crate::packet::Outlet;
use crate::queue::EventQueue;
use crate::world::World;

pub(crate) struct Connection {
    /// Each end's endpoint; `None` once the connection is closed.
    pub(crate) ends: [Option<Box<Endpoint>>; 2],
    pub(crate) sources: Sources,
    /// Each end's timer event.
    timers: [TimerEvent; 2],
    /// Length of the IP headers, bytes.
    ip_header: u16,
    /// The logs of the data sender.
    pub(crate) log: Option<Box<Log>>,
}

/// The parts of a connection that has both ends.
pub(crate) struct Parts<'a> {
    pub(crate) ends: [&'a mut Endpoint; 2],
    pub(crate) timers: [&'a mut TimerEvent; 2],
    pub(crate) log: Option<&'a mut Log>,
}

/// State of a connection when its flow, or its leg, ended.
#[derive(Clone)]
pub(crate) struct Account {
    /// State of the data sender; `None` during its handshake, whose packets do not count as the flow's.
    pub(crate) sender: Option<Info>,
    /// Retransmission timeouts: the sender's, or the opener's during the handshake.
    pub(crate) timeouts: u64,
    /// Limits on the sender; empty during the handshake.
    pub(crate) limits: SenderLimits,
}

/// First numbers of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    /// The way of the packets sent by `from`; the next number is the reverse way.
    pub(crate) way: u32,
    /// Event source of the timer at `from`; the next number is that of `to`.
    pub(crate) timers: u32,
}

pub(crate) struct TimerEvent {
    source: u32,
    /// Time of the event; [`Time::MAX`] if none is set, [`HAS_COME`] if it is the current one.
    due: Time,
    /// The endpoint's deadline.
    deadline: Time,
}

/// Parameters of an endpoint to be created.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) config: &'a Config,
    pub(crate) cc: &'a Selected,
    pub(crate) seed: u64,
    /// Maximum segment size that it announces.
    pub(crate) mss: u16,
    /// Enables header prediction.
    pub(crate) fast_path: bool,
}

impl Side<'_> {
    /// Creates the endpoint, which opens the connection or listens.
    pub(crate) fn endpoint(self, opens: bool) -> Box<Endpoint> {
        let config = Config { mss: self.mss, ..self.config.clone() };
        let endpoint = if opens {
            Endpoint::client(&config, self.cc, self.seed)
        } else {
            Endpoint::server(&config, self.cc, self.seed)
        };
        Box::new(if self.fast_path { endpoint } else { endpoint.without_fast_path() })
    }
}

impl Connection {
    pub(crate) fn new(ends: [Box<Endpoint>; 2], sources: Sources, ip_header: u16) -> Self {
        Self { ends: ends.map(Some), sources, timers: sources.timer_events(), ip_header, log: None }
    }

    /// Adds the logs of the data sender that `measure` asks for, of a flow or of one of its legs.
    #[must_use]
    pub(crate) fn logged(mut self, measure: &Measure, is_leg: bool) -> Self {
        self.log = self.ends[End::From as usize].as_deref().and_then(|from| Log::of(measure, from, is_leg));
        self
    }

    /// An end, as its session sees it.
    #[inline]
    pub(crate) fn host(&self, end: End) -> Option<&impl Stream> {
        self.ends[end as usize].as_deref()
    }

    #[inline]
    pub(crate) fn host_mut(&mut self, end: End) -> Option<&mut impl Stream> {
        self.ends[end as usize].as_deref_mut()
    }

    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, end: End, world: &mut World) {
        if self.has_output(end) {
            self.send(now, end, world);
        }
    }

    #[inline]
    pub(crate) fn has_output(&self, end: End) -> bool {
        self.host(end).is_some_and(Stream::has_output)
    }

    #[inline(never)]
    fn send(&mut self, now: Time, end: End, world: &mut World) {
        let outlet = self.outlet(end);
        let Some(host) = self.ends[end as usize].as_deref_mut() else { return };
        let log = self.log.as_deref_mut().filter(|_| matches!(end, End::From));
        let Some(log) = log else { return outlet.send_all(host, now, world) };
        if log.is_capture() {
            host.transmit_predicted(now, |header| {
                log.capture_sent(now, header, 1);
                world.network.send(now, outlet.packet(header));
            });
        }
        let mut segment = Segment::EMPTY;
        while host.transmit_into(now, &mut segment) {
            log.sent(now, &segment, host);
            world.network.send(now, &mut outlet.packet_of(&segment, host));
        }
    }

    #[inline]
    pub(crate) fn outlet(&self, end: End) -> Outlet {
        Outlet { way: self.sources.way + end as u32, ip_header: self.ip_header }
    }

    /// Moves the timer event of an end if necessary.
    #[inline]
    pub(crate) fn schedule(&mut self, end: End, world: &mut World) {
        if let Some(host) = self.ends[end as usize].as_deref() {
            self.timers[end as usize].follow(host, world);
        }
    }

    /// Removes an end, with its timer event.
    pub(crate) fn remove(&mut self, end: End, world: &mut World) {
        self.ends[end as usize] = None;
        self.timers[end as usize].remove(world);
    }

    /// Its parts; `None` if an end is gone.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Option<Parts<'_>> {
        let ([from, to], timers) = (&mut self.ends, self.timers.each_mut());
        Some(Parts { ends: [from.as_deref_mut()?, to.as_deref_mut()?], timers, log: self.log.as_deref_mut() })
    }

    /// Runs the timer of an end, whose event has come and may be early; returns whether something was due, in which case
    /// [`Connection::schedule`] must follow.
    pub(crate) fn on_timer(&mut self, now: Time, end: End, world: &mut World) -> bool {
        let Some(host) = self.ends[end as usize].as_deref_mut() else {
            self.timers[end as usize].remove(world);
            return false;
        };
        let timer = &mut self.timers[end as usize];
        debug_assert_eq!(timer.deadline, host.deadline(), "the event follows the deadline");
        if timer.is_early(now, world) {
            return false;
        }
        timer.due = HAS_COME;
        Stream::on_timer(host, now);
        if let (End::From, Some(log)) = (end, &mut self.log) {
            log.timer(now, host);
        }
        true
    }

    /// Logs an ACK at the data sender.
    #[inline]
    pub(crate) fn log_acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>) {
        if let (Some(log), Some(host)) = (&mut self.log, self.ends[End::From as usize].as_deref_mut()) {
            log.acknowledged(now, header, rtt, host);
        }
    }

    /// State of the connection at `now`; `opener` opens it.
    pub(crate) fn account(&self, now: Time, opener: End) -> Account {
        let sender = self.sender_info();
        let opening = || self.ends[opener as usize].as_deref().map_or(0, |opener| opener.info().rto_count);
        let timeouts = sender.as_ref().map_or_else(opening, |sender| sender.rto_count);
        let limits = self.sender().map(|sender| limits(sender.limits(now))).unwrap_or_default();
        Account { sender, timeouts, limits }
    }

    /// State of the sender; `None` during the handshake, whose packets do not count as the flow's.
    pub(crate) fn sender_info(&self) -> Option<Info> {
        self.sender().map(Endpoint::info)
    }

    /// The sender; `None` during the handshake.
    #[inline]
    pub(crate) fn sender(&self) -> Option<&Endpoint> {
        self.ends[End::From as usize].as_deref().filter(|from| from.was_established())
    }

    /// How one of its ends waits for a timer event that was never set, if one does.
    pub(crate) fn missed_timer(&self, queue: &EventQueue) -> Option<String> {
        let ends = self.ends.iter().zip(&self.timers).zip(["sender", "receiver"]);
        ends.into_iter().find_map(|((host, timer), name)| {
            let vain = checks::missed_timer(host.as_deref()?, queue.due(timer.source()))?;
            Some(format!("waits: its {name} {vain}"))
        })
    }

    /// Removes the ends that are closed. One that is stays to answer the other's FIN, unless data would still come before it.
    pub(crate) fn release(&mut self, world: &mut World) {
        let [from, to] = &self.ends;
        let may_go = |end: &Option<Box<Endpoint>>, other: &Option<Box<Endpoint>>| {
            let Some(end) = end else { return false };
            let is_needed = |other: &Endpoint| {
                if other.is_closed() {
                    end.has_output()
                } else {
                    other.acked() == other.written()
                }
            };
            end.is_closed() && !other.as_deref().is_some_and(is_needed)
        };
        for (end, goes) in [(End::From, may_go(from, to)), (End::To, may_go(to, from))] {
            if goes {
                self.remove(end, world);
            }
        }
    }
}

impl Sources {
    fn timer_events(self) -> [TimerEvent; 2] {
        [0, 1].map(|end| TimerEvent { source: self.timers + end, due: Time::MAX, deadline: Time::MAX })
    }
}

impl TimerEvent {
    pub(crate) fn source(&self) -> u32 {
        self.source
    }

    /// Moves the event only if it would be late, or has come: most deadlines are postponed before they expire.
    #[inline]
    pub(crate) fn follow(&mut self, host: &impl Stream, world: &mut World) {
        self.deadline = host.deadline();
        if self.deadline < self.due || self.due == HAS_COME {
            self.set(world);
        }
    }

    /// Postpones the event, which has come, if the deadline is after `now`; returns whether it is. The endpoint need not be asked.
    fn is_early(&mut self, now: Time, world: &mut World) -> bool {
        let is_early = self.deadline > now;
        if is_early {
            self.set(world);
        }
        is_early
    }

    fn set(&mut self, world: &mut World) {
        let at = self.deadline;
        if at == Time::MAX {
            return self.remove(world);
        }
        self.due = at;
        world.network.queue.set(self.source, at);
    }

    /// Removes the event if it is not after `at`; [`TimerEvent::follow`] must set it again.
    #[inline]
    pub(crate) fn yield_to(&mut self, at: Time, world: &mut World) {
        if self.due <= at {
            self.remove(world);
        }
    }

    fn remove(&mut self, world: &mut World) {
        self.due = Time::MAX;
        world.network.queue.remove(self.source);
    }
}

impl Outlet {
    #[inline(always)]
    pub(crate) fn send_all(self, host: &mut Endpoint, now: Time, world: &mut World) {
        host.transmit_predicted(now, |header| {
            world.network.send(now, self.packet(header));
        });
        if host.has_output() {
            self.send_others(host, now, world);
        }
    }

    #[inline(never)]
    pub(crate) fn send_others(self, host: &mut Endpoint, now: Time, world: &mut World) {
        let mut segment = Segment::EMPTY;
        if host.poll_duplicate_ack(now, &mut segment) {
            world.network.send(now, &mut self.packet_of(&segment, host));
            return;
        }
        while host.transmit_into(now, &mut segment) {
            world.network.send(now, &mut self.packet_of(&segment, host));
        }
    }
}

pub(crate) fn sent(info: Option<&Info>) -> SenderCounts {
    info.map_or(SenderCounts::counted(0, 0), |info| {
        SenderCounts::counted(info.sent_packets, info.retransmitted_packets)
    })
}

fn limits(limits: Limits) -> SenderLimits {
    SenderLimits {
        busy: Some(limits.busy),
        peer_window: Some(limits.peer_window),
        send_buffer: Some(limits.send_buffer),
        application: Some(limits.application),
    }
}

pub(crate) fn state(info: &Info) -> SenderState {
    SenderState {
        acked_bytes: info.acked,
        sacked_bytes: info.sacked_bytes,
        cwnd_packets: Some(info.cwnd),
        ssthresh_packets: info.ssthresh,
        srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
        inflight_packets: Some(info.inflight),
        pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
    }
}

/// The time of a [`TimerEvent`] that has come: it stays the first one until its endpoint has a new deadline.
const HAS_COME: Time = Time::ZERO;
