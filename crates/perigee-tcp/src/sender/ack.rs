//! ACK processing, in the order of Linux's `tcp_ack`.
//!
//! Three paths share one text, compiled separately for each: the two fast paths omit the steps that have nothing to do (compare Linux's
//! header prediction). Tests compare them with the slow path.

use perigee_cc::{AckSample, CaState, OptionsReceived, RateSample};
use perigee_units::Time;

use crate::segment::{Flags, Header, Segment};

use super::report::{AckReport, Acked};
use super::sack_advance::SackAdvance;
use super::state::output::Retransmit;
use super::state::queue::{mark, Popped, QueueEntry};
use super::state::timer::Deferred;
use super::Sender;

#[derive(Clone, Copy)]
enum Path<'a> {
    Slow(&'a Segment),
    /// An ACK of whole segments, with others still in flight, at an [undisturbed](Sender::is_undisturbed) sender.
    Progress(Popped),
    /// An ACK during recovery that only extends the newest SACK block.
    SackAdvance(SackAdvance),
}

/// State before the ACK, for the differences it makes.
#[derive(Clone, Copy)]
struct Prior {
    una: u64,
    highest_sack: u64,
    packets: u32,
    sacked: u32,
    delivered: u32,
    lost: u32,
}

impl Sender {
    /// Fast path of [`Sender::on_ack`] at a sender that [`Sender::is_undisturbed`], for an ACK of whole entries that leaves others in
    /// flight. Returns `false`, with no effect, for any other ACK.
    #[inline(always)]
    pub(crate) fn on_predicted_ack(&mut self, now: Time, header: &Header, slow_path: bool) -> bool {
        if self.timer.probe_due && now != self.now {
            self.set_due_probe();
        }
        let una = self.stream.una;
        let ack = una + u64::from(header.ack.wrapping_sub(self.sk.snd_una));
        if ack >= self.stream.nxt || ack == una || self.timer.probe_due {
            return false;
        }
        let Some(popped) = self.queue.pop_until(una, ack) else { return false };
        // The ACK replaces the timer, deferred or not.
        self.timer.deferred = Deferred::Nothing;
        self.set_clock(now);
        let prior = Prior { packets: self.sk.packets_out, una, highest_sack: una, sacked: 0, delivered: 0, lost: 0 };
        let report = AckReport { slow_path, advanced: true, data_acked: true, set_timer: true, ..AckReport::NOTHING };
        self.process(ack, header, Path::Progress(popped), prior, report);
        true
    }

    /// Processes the ACK in `segment`; `slow_path` is set if Linux's header prediction would fail.
    #[inline(never)]
    pub(crate) fn on_ack(&mut self, segment: &Segment, slow_path: bool) {
        let Some(ack) = self.stream.position(segment.ack) else { return };
        if ack > self.stream.nxt || ack + MAX_WINDOW < self.stream.una {
            return;
        }
        self.output.retransmit = Retransmit::Nothing;
        if self.timer.probe_due {
            self.set_due_probe();
        }
        let prior = self.prior();
        let report = AckReport {
            slow_path,
            advanced: ack > prior.una,
            data: segment.len > 0,
            echo_ms: segment.timestamps.then_some(segment.tsecr),
            ecn_echo: self.ecn.on && segment.flags.has(Flags::ECE),
            reordered_at: u64::MAX,
            ..AckReport::NOTHING
        };
        if ack < prior.una {
            return self.on_old_ack(ack, segment, report);
        }
        self.process(ack, segment, Path::Slow(segment), prior, report);
    }

    /// Fast path of [`Sender::on_ack`] in a recovery, for an ACK that only extends the newest SACK block. Returns `false`, with no effect,
    /// for any other ACK.
    pub(crate) fn on_sack_advance(&mut self, segment: &Segment) -> bool {
        let Some(advance) = self.sack_advance(segment) else { return false };
        let report = AckReport { slow_path: true, data_sacked: true, ..AckReport::NOTHING };
        self.process(self.stream.una, segment, Path::SackAdvance(advance), self.prior(), report);
        true
    }

    fn prior(&self) -> Prior {
        Prior {
            una: self.stream.una,
            highest_sack: self.highest_sack_or_una(),
            packets: self.sk.packets_out,
            sacked: self.sk.sacked_out,
            delivered: self.sk.delivered,
            lost: self.sk.lost,
        }
    }

    /// Processes an ACK that later ones have overtaken: its SACK blocks may be new.
    fn on_old_ack(&mut self, ack: u64, segment: &Segment, mut report: AckReport) {
        self.output.due = true;
        if segment.sack_count > 0 {
            let una = self.stream.una;
            self.take_sacks(segment, ack, una, &mut report);
            self.fast_retransmit_alert(una, 0, &mut report);
        }
    }

    /// Processes an ACK of everything below `ack`.
    #[inline(always)]
    fn process(&mut self, ack: u64, header: &Header, path: Path<'_>, prior: Prior, mut report: AckReport) {
        let is_progress = matches!(path, Path::Progress(_));
        let in_flight = if is_progress { prior.packets } else { self.sk.packets_in_flight() };
        // Only `cong_control` reads the rate sample of a `Progress` ACK.
        let samples_rate = !is_progress || self.sk.has_cong_control();
        if samples_rate {
            self.rate = RateSample { prior_in_flight: in_flight, rtt_us: -1, ..RateSample::default() };
        }
        self.output.due = true;
        if report.advanced {
            self.sk.inet_conn.icsk_retransmits = 0;
            self.sk.bytes_acked += ack - prior.una;
            self.sk.snd_una = header.ack;
            self.stream.una = ack;
        }
        report.window_update = self.peer_window.take(ack, header.window, report.advanced);
        self.sk.snd_wnd = self.peer_window.bytes;
        if !is_progress {
            self.bound_segments();
        }
        let mut sacked_us = (0, 0);
        match &path {
            Path::Slow(segment) if segment.sack_count > 0 && self.settings.sack => {
                self.take_sacks(segment, ack, prior.una, &mut report);
            }
            Path::SackAdvance(advance) => sacked_us = self.mark_sack_advance(advance),
            Path::Slow(_) | Path::Progress(_) => {}
        }
        let has_ack_event = self.sk.has_in_ack_event();
        let is_without_data = matches!(path, Path::Slow(_)) && prior.packets == 0;
        if has_ack_event && (is_without_data || !self.settings.late_ack_events) {
            self.report_ack(&report);
        }
        if is_without_data {
            return self.on_ack_without_data_out(&report);
        }
        let acked = match &path {
            Path::Slow(_) => self.clean_queue(&prior, &mut report),
            Path::Progress(popped) => self.measure_popped(*popped, samples_rate),
            Path::SackAdvance(..) => {
                let (acked, rearms) = self.measure_sack_advance(sacked_us);
                report.set_timer = rearms;
                acked
            }
        };
        if self.sk.has_pkts_acked() && (acked.packets > 0 || report.data_sacked) {
            let rtt_us = i32::try_from(acked.rtt_us).unwrap_or(i32::MAX);
            if header.timestamps {
                self.sk.rx_opt = OptionsReceived { rcv_tsval: header.tsval, rcv_tsecr: header.tsecr };
            }
            self.sk.pkts_acked(&AckSample { pkts_acked: acked.packets, rtt_us, in_flight });
        }
        let mut marked = 0;
        if has_ack_event && self.settings.late_ack_events {
            // A predicted ACK has no mark.
            marked = self.sk.delivered.wrapping_sub(prior.delivered);
            self.count_marked(&report, marked);
            self.report_ack(&report);
        }
        let may_probe = match &path {
            Path::Slow(_) => !self.look_for_losses(ack, prior.una, &mut report) && self.may_probe_after_ack(),
            Path::Progress(_) => self.settings.tlp,
            Path::SackAdvance(..) => {
                report.set_timer &= !self.continue_recovery();
                false
            }
        };
        if report.set_timer {
            self.set_timer_after_ack(may_probe);
        }
        let delivered = if is_progress { acked.packets } else { self.sk.delivered.wrapping_sub(prior.delivered) };
        self.count_marked(&report, delivered.wrapping_sub(marked));
        self.sk.note_delivery(delivered);
        if samples_rate {
            let lost = if is_progress { 0 } else { self.sk.lost.wrapping_sub(prior.lost) };
            self.rate.complete(&self.sk, delivered, lost, report.maybe_delayed);
        }
        self.control_congestion(&path, header.ack, delivered, &report);
    }

    /// Counts packets that an ACK with a congestion mark delivered.
    #[inline(always)]
    fn count_marked(&mut self, report: &AckReport, delivered: u32) {
        if report.ecn_echo {
            self.sk.delivered_ce = self.sk.delivered_ce.wrapping_add(delivered);
        }
    }

    /// Calls `in_ack_event` of the congestion control, which has one.
    fn report_ack(&mut self, report: &AckReport) {
        let ecn = if report.ecn_echo { CA_ACK_ECE } else { 0 };
        let path = if report.slow_path || !report.advanced { CA_ACK_SLOWPATH } else { 0 };
        self.sk.in_ack_event(CA_ACK_WIN_UPDATE | path | ecn);
    }

    /// Looks for losses after an ACK; returns whether the ACK is dubious (Linux's `tcp_ack_is_dubious`).
    fn look_for_losses(&mut self, ack: u64, prior_una: u64, report: &mut AckReport) -> bool {
        self.rack.update_window(self.rate.prior_delivered, self.sk.delivered);
        if self.tail_probe.outstanding.is_some() {
            self.on_probe_ack(ack, report);
        }
        let is_dubious = !report.not_a_duplicate()
            || report.data_sacked
            || report.ecn_echo
            || report.dsack
            || self.state() != CaState::Open;
        if is_dubious {
            let duplicate = !(report.advanced || report.not_a_duplicate() || report.dsack);
            self.fast_retransmit_alert(prior_una, u32::from(duplicate), report);
        }
        is_dubious
    }

    /// Processes an ACK while nothing is in flight: only the window can change.
    pub(crate) fn on_window(&mut self, segment: &Segment) {
        self.timer.unanswered_probes = 0;
        if segment.window != self.peer_window.bytes {
            self.peer_window.take(self.stream.una, segment.window, false);
            self.sk.snd_wnd = self.peer_window.bytes;
            self.bound_segments();
            self.on_ack_without_data_out(&AckReport::NOTHING);
            self.output.due = true;
        }
    }

    /// Recomputes the segment size, since the peer's window may now allow larger segments.
    #[inline]
    pub(super) fn bound_segments(&mut self) {
        if self.has_small_segments() || !self.established {
            let header = TCP_HEADER + self.settings.option_bytes();
            self.sk.mss_cache = self.peer_window.bounded_segment(self.sk.advmss, header);
        }
    }

    /// Whether the peer's window limits segments to less than the negotiated MSS.
    #[inline]
    pub(crate) fn has_small_segments(&self) -> bool {
        self.sk.mss_cache < self.sk.advmss
    }

    fn on_ack_without_data_out(&mut self, report: &AckReport) {
        self.timer.end_window_probes();
        if report.not_a_duplicate() && self.tail_probe.outstanding.is_some_and(|probe| self.stream.una >= probe.end) {
            self.tail_probe.outstanding = None;
        }
    }

    /// Takes RTT and rate samples from entries that were popped and never retransmitted.
    #[inline(always)]
    fn measure_popped(&mut self, popped: Popped, samples_rate: bool) -> Acked {
        let Popped { first_sent_us, last, packets } = popped;
        self.sk.packets_out -= packets;
        self.sk.delivered += packets;
        let now_us = self.sk.tcp_mstamp;
        let entry = self.queue.popped(last);
        let last_sent_us = entry.sent_us;
        self.rack.advance_to(entry, now_us);
        let rtt_us = (now_us - last_sent_us) as i64;
        if samples_rate {
            self.rate.rtt_us = rtt_us;
            let end = self.stream.to_wire(entry.end());
            self.rate.count_delivery(&mut self.sk, &entry.departure(), end);
        } else {
            self.sk.first_tx_mstamp = last_sent_us;
        }
        self.on_rtt_sample(now_us - first_sent_us, now_us - last_sent_us, false);
        Acked { packets, rtt_us }
    }

    /// Pops the acknowledged entries and takes RTT and rate samples.
    fn clean_queue(&mut self, prior: &Prior, report: &mut AckReport) -> Acked {
        let now_us = self.sk.tcp_mstamp;
        let (mut first_sent, mut last_sent) = (None, 0);
        let mut packets = 0;
        let mut reordered_at = report.reordered_at;
        while let Some(head) = self.queue.head() {
            if head.end() > self.stream.una {
                break;
            }
            let entry = *head;
            if entry.has(mark::RETRANS | mark::EVER_RETRANS) {
                if entry.has(mark::RETRANS) {
                    self.sk.retrans_out -= 1;
                }
                report.retransmitted_acked = true;
            } else if !entry.has(mark::SACKED) {
                last_sent = entry.sent_us;
                first_sent.get_or_insert(last_sent);
                reordered_at = reordered_at.min(entry.start);
                report.original_acked |= entry.end() <= self.recovery.point;
            }
            if entry.has(mark::SACKED) {
                self.sk.sacked_out -= 1;
            } else if self.settings.sack {
                self.sk.delivered += 1;
                if !is_spurious_retransmission(&entry, report.echo_ms) {
                    self.rack.advance(&self.sk, &entry, now_us);
                }
            }
            if entry.has(mark::LOST) {
                self.sk.lost_out -= 1;
            }
            self.sk.packets_out -= 1;
            packets += 1;
            self.count_delivery(&entry);
            if entry.has(mark::SYN) {
                report.syn_acked = true;
                self.recovery.undo.end_episode();
            } else {
                report.data_acked = true;
            }
            self.forget_head(&entry);
        }
        self.measure_rtt(first_sent, last_sent, packets, prior, report);
        if report.acked() {
            report.set_timer = true;
            if !self.settings.sack {
                self.clean_without_sack(packets);
            } else if reordered_at < prior.highest_sack {
                self.note_reordering(reordered_at);
            }
        }
        Acked { packets, rtt_us: self.rate.rtt_us }
    }

    #[inline]
    fn forget_head(&mut self, entry: &QueueEntry) {
        self.scoreboard.head.on_removed(self.queue.first(), entry.has(mark::SACKED));
        self.queue.pop();
    }

    fn measure_rtt(
        &mut self,
        first_sent: Option<u64>,
        last_sent: u64,
        packets: u32,
        prior: &Prior,
        report: &mut AckReport,
    ) {
        let now_us = self.sk.tcp_mstamp;
        let mut sample: Option<(u64, u64)> = None;
        if let (Some(first), false) = (first_sent, report.retransmitted_acked) {
            sample = Some((now_us - first, now_us - last_sent));
            let runt = packets == 1 && prior.sacked == 0 && self.stream.una - prior.una < u64::from(self.sk.mss_cache);
            report.maybe_delayed = runt && self.queue.is_empty();
        }
        let sacked = report.sacked_sent_us.map(|(first, last)| (now_us - first, now_us - last));
        if let Some((oldest, newest)) = sacked {
            sample = Some(sample.map_or((oldest, newest), |s| (s.0, newest)));
        }
        if sample.is_none() && report.acked() {
            let age = report.echo_ms.map(|echo| self.now_ms.wrapping_sub(echo));
            // Timestamps have a resolution of 1 ms, so an age below that counts as 1 ms. A valid echo is never in the future.
            sample = age.filter(|age| *age < i32::MAX as u32 / 1000).map(|age| {
                let us = u64::from(age.max(1)) * 1000;
                (us, us)
            });
        }
        let Some((oldest, newest)) = sample else { return };
        self.rate.rtt_us = newest as i64;
        self.on_rtt_sample(oldest, newest, report.maybe_delayed);
        // Rearm only for data sent after the head's last transmission, or the timeout would be postponed forever during recovery.
        if let (false, Some((sack_age, _)), Some(head)) = (report.acked(), sacked, self.queue.head()) {
            report.set_timer |= sack_age > now_us - head.sent_us;
        }
    }

    /// Takes the RTT samples of the oldest and the newest acknowledged segment, us.
    #[inline(always)]
    pub(super) fn on_rtt_sample(&mut self, oldest_us: u64, newest_us: u64, maybe_delayed: bool) {
        self.rtt.latest = Some(Time::from_nanos(newest_us * 1000));
        let newest_us = u32::try_from(newest_us).unwrap_or(u32::MAX);
        if !(maybe_delayed && newest_us > self.sk.rtt_min_us) {
            self.rtt.on_min_sample(&mut self.sk, self.now_ms, newest_us);
        }
        let oldest_us = u32::try_from(oldest_us).unwrap_or(u32::MAX);
        self.rtt.on_sample(&mut self.sk, oldest_us, self.stream.una, self.stream.nxt);
        self.timer.backoff = 0;
    }

    #[inline]
    pub(crate) fn count_delivery(&mut self, entry: &QueueEntry) {
        let end = self.stream.to_wire(entry.end());
        self.rate.count_delivery(&mut self.sk, &entry.departure(), end);
    }

    #[inline(always)]
    fn control_congestion(&mut self, path: &Path<'_>, ack: u32, delivered: u32, report: &AckReport) {
        if self.sk.has_cong_control() {
            return self.sk.cong_control(ack, report.kernel_flags(), &self.rate);
        }
        let reduces = match path {
            Path::Slow(_) => self.in_cwnd_reduction(),
            Path::Progress(_) => false,
            Path::SackAdvance(..) => true,
        };
        if reduces {
            self.reduce_cwnd(delivered, self.rate.losses as u32, report.advanced, self.rate.prior_in_flight);
        } else if !matches!(path, Path::Slow(_)) || self.may_raise_cwnd(report) {
            self.sk.cong_avoid(ack, if self.settings.abc { delivered } else { delivered.min(1) });
            self.sk.snd_cwnd_stamp = self.now_ms;
        }
        self.follow_cwnd();
    }

    /// Updates the pacing rate if pacing or trains use it.
    #[inline]
    fn follow_cwnd(&mut self) {
        if self.sk.in_slow_start() || self.is_paced() || self.settings.segmentation_offload {
            self.sk.follow_window();
        }
    }

    fn may_raise_cwnd(&self, report: &AckReport) -> bool {
        if self.sk.reordering > self.settings.reordering {
            report.forward_progress()
        } else {
            report.data_acked
        }
    }
}

/// Whether an ACK echoes a timestamp older than the retransmission, so that the original arrived (Eifel, RFC 3522).
fn is_spurious_retransmission(entry: &QueueEntry, echo_ms: Option<u32>) -> bool {
    let sent_ms = (entry.sent_us / 1000) as u32;
    entry.has(mark::EVER_RETRANS) && echo_ms.is_some_and(|echo| (echo.wrapping_sub(sent_ms) as i32) < 0)
}

/// Maximum window: an ACK further below SND.UNA does not belong to this connection.
const MAX_WINDOW: u64 = 1 << 30;
/// Linux's `enum tcp_ca_ack_event_flags`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;
/// TCP header without options, bytes.
const TCP_HEADER: u32 = 20;
