//! The two endpoints of a TCP connection in the network: what they send, and when their timers fire.

use perigee_cc::Selected;
use perigee_link::Ecn;
use perigee_results::{SenderCounts, SenderState};
use perigee_tcp::{Config, Endpoint, Header, Info};
use perigee_traffic::End;
use perigee_units::Time;

use crate::event_log::EventLog;
use crate::packet::{NetPacket, Payload};
use crate::world::World;

/// One TCP connection.
pub(crate) struct Connection {
    /// By end: its endpoint; gone once the connection is closed.
    pub(crate) ends: [Option<Box<Endpoint>>; 2],
    pub(crate) sources: Sources,
    /// By end: when the event of its timer is due; [`Time::MAX`]: it has none.
    due: [Time; 2],
    /// Bytes of its packets' IP headers.
    ip_header: u16,
    /// The log of the end that sends the data.
    pub(crate) log: Option<Box<EventLog>>,
    /// What the endpoint at `from` had done when the flow ended.
    pub(crate) last: Option<Info>,
}

/// Where a connection's numbers begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    /// The way of the packets that `from` sends; the next number is the way back.
    pub(crate) way: u32,
    /// Event source of the timer at `from`; the next number is that at `to`.
    pub(crate) timers: u32,
}

/// An end of a connection before it is made.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) config: &'a Config,
    pub(crate) cc: &'a Selected,
    pub(crate) seed: u64,
    /// The largest segment that arrives.
    pub(crate) mss: u16,
}

impl Side<'_> {
    /// Its endpoint, which opens the connection or listens.
    pub(crate) fn endpoint(self, opens: bool) -> Box<Endpoint> {
        let config = Config { mss: self.mss, ..self.config.clone() };
        Box::new(if opens {
            Endpoint::client(&config, self.cc, self.seed)
        } else {
            Endpoint::server(&config, self.cc, self.seed)
        })
    }
}

impl Connection {
    /// A connection that is not opened yet.
    pub(crate) fn new(ends: [Box<Endpoint>; 2], sources: Sources, ip_header: u16, logs: bool) -> Self {
        Self { ends: ends.map(Some), sources, due: [Time::MAX; 2], ip_header, log: logs.then(Box::default), last: None }
    }

    /// Sends all that an end has to send.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, end: End, world: &mut World) {
        if self.has_output(end) {
            self.send(now, end, world);
        }
    }

    /// Whether an end may have something to send.
    #[inline]
    pub(crate) fn has_output(&self, end: End) -> bool {
        self.ends[end as usize].as_deref().is_some_and(Endpoint::has_output)
    }

    #[inline(never)]
    fn send(&mut self, now: Time, end: End, world: &mut World) {
        self.send_predicted(end, |packet, header| {
            world.send_plain(now, packet, header);
        });
        if self.has_output(end) {
            self.send_others(now, end, world);
        }
    }

    /// Gives all that follows predicted segments to `send`: way and size of its packet, and its header.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(crate) fn send_predicted(&mut self, end: End, mut send: impl FnMut((u32, u16), &Header)) {
        let (way, ip_header) = (self.sources.way + end as u32, self.ip_header);
        if let (Some(host), None) = (self.ends[end as usize].as_deref_mut(), &self.log) {
            host.transmit_predicted(|header| send((way, ip_header + header.plain_bytes() + header.len), header));
        }
    }

    #[inline(never)]
    fn send_others(&mut self, now: Time, end: End, world: &mut World) {
        let mut packet = NetPacket::SEGMENT;
        while self.next_packet(now, end, &mut packet) {
            world.send(now, &mut packet);
        }
    }

    /// Puts the next packet that an end has to send into `packet`, which holds a segment; whether there is one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that is sent")]
    pub(crate) fn next_packet(&mut self, now: Time, end: End, packet: &mut NetPacket) -> bool {
        let (Some(host), Payload::Tcp(segment)) = (self.ends[end as usize].as_deref_mut(), &mut packet.payload) else {
            return false;
        };
        if !host.transmit_into(now, segment) {
            return false;
        }
        if let (End::From, Some(log)) = (end, &mut self.log) {
            log.sent(now, segment, host);
        }
        packet.ecn = match segment.ect {
            true if host.sends_ect1() => Ecn::L4s,
            true => Ecn::Capable,
            false => Ecn::NotCapable,
        };
        packet.bytes = self.ip_header + (segment.header_bytes() as u16) + segment.len;
        packet.way = self.sources.way + end as u32;
        true
    }

    /// Moves the event of an end's timer only where it would come too late: most deadlines move on before they are due.
    #[inline]
    pub(crate) fn schedule(&mut self, end: End, world: &mut World) {
        let Some(host) = self.ends[end as usize].as_deref() else { return };
        let at = host.next_timer().unwrap_or(Time::MAX);
        if at < self.due[end as usize] {
            self.due[end as usize] = at;
            world.queue.set(self.sources.timers + end as u32, at);
        }
    }

    /// Takes the event of an end's timer away: it fires, or the end is gone.
    pub(crate) fn unschedule(&mut self, end: End, world: &mut World) {
        self.due[end as usize] = Time::MAX;
        world.queue.remove(self.sources.timers + end as u32);
    }

    /// The timer of an end fires; it may be early. Whether something was due.
    pub(crate) fn on_timer(&mut self, now: Time, end: End) -> bool {
        let Some(host) = self.ends[end as usize].as_deref_mut() else { return false };
        if host.next_timer().is_none_or(|at| at > now) {
            return false;
        }
        host.on_timer(now);
        if let (End::From, Some(log)) = (end, &mut self.log) {
            log.timer(now, host);
        }
        true
    }

    /// What the end that sends the data has seen of an acknowledgement, for its log.
    #[inline]
    pub(crate) fn log_acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>) {
        if let (Some(log), Some(host)) = (&mut self.log, self.ends[End::From as usize].as_deref()) {
            log.acknowledged(now, header, rtt, host);
        }
    }

    /// The sender's state: now, or when the flow ended.
    pub(crate) fn info(&self) -> Option<Info> {
        self.last.clone().or_else(|| self.sender_info())
    }

    /// The sender's state now; `None` before the handshake is complete, since what that takes is not the flow's data.
    pub(crate) fn sender_info(&self) -> Option<Info> {
        self.ends[End::From as usize].as_deref().filter(|from| from.was_established()).map(Endpoint::info)
    }

    /// Gives up the memory of ends that are closed.
    pub(crate) fn release(&mut self, world: &mut World) {
        for end in [End::From, End::To] {
            if self.ends[end as usize].as_deref().is_some_and(Endpoint::is_closed) {
                self.ends[end as usize] = None;
                self.unschedule(end, world);
            }
        }
    }
}

/// The packets of a sender so far.
pub(crate) fn sent(info: Option<&Info>) -> SenderCounts {
    info.map_or(SenderCounts::counted(0, 0), |info| {
        SenderCounts::counted(info.sent_packets, info.retransmitted_packets)
    })
}

/// A sender's state for a row of the series.
pub(crate) fn state(info: &Info) -> SenderState {
    SenderState {
        acked_bytes: info.snd_una,
        cwnd_packets: Some(info.cwnd),
        ssthresh_packets: info.ssthresh,
        srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
        inflight_packets: Some(info.inflight),
        pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
    }
}
