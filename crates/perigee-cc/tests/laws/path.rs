//! A path for tests of algorithms: transfers over one bottleneck, by the simulator's TCP and links.
//!
//! Receivers acknowledge every packet, as the papers assume, unless a test sets otherwise; all other settings are Linux's defaults.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use perigee_cc::Selected;
use perigee_study::{Overrides, Study};

/// The path that all flows share.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) rate_bps: u64,
    pub(crate) rtt_us: u64,
    pub(crate) queue_bytes: u64,
    /// Standard deviation of the delay and time between redraws, us.
    pub(crate) jitter: Option<(f64, u64)>,
    pub(crate) loss: f64,
    /// Packets are lost on a link of their own in front of the bottleneck, not behind its server.
    pub(crate) loses_in_front: bool,
    /// Period and length of loss episodes, us, and the probability of loss within them.
    pub(crate) bursts: Option<(u64, u64, f64)>,
    /// An instant, s, from which on the round trip is longer by this, us.
    pub(crate) step: Option<(f64, u64)>,
    /// An instant, s, from which on the rate is this, bit/s.
    pub(crate) rate_step: Option<(f64, u64)>,
    /// Both ends use ECN, and packets that waited longer than this, us, are marked.
    pub(crate) marks_from_us: Option<u64>,
    /// Packets that the receiver's window holds; `None`: no limit.
    pub(crate) receive_window: Option<u64>,
    /// Receivers delay acknowledgements, as Linux's do.
    pub(crate) delayed_acks: bool,
    /// Segments leave in trains.
    pub(crate) offload: bool,
    pub(crate) seed: u64,
}

impl Path {
    pub(crate) fn new(mbps: f64, rtt_ms: u64, queue_bytes: u64) -> Self {
        Self {
            rate_bps: (mbps * 1e6) as u64,
            rtt_us: rtt_ms * 1000,
            queue_bytes,
            jitter: None,
            loss: 0.0,
            loses_in_front: false,
            bursts: None,
            step: None,
            rate_step: None,
            marks_from_us: None,
            receive_window: None,
            delayed_acks: false,
            offload: false,
            seed: 1,
        }
    }

    /// The path as a study; the bottleneck's rate and delay are the timeline's, where one of them steps.
    fn study(&self, flows: &[(&Selected, f64)], seconds: f64) -> String {
        // The receive window is half of the buffer; the send buffer does not limit.
        let buffer = self.receive_window.map_or(MOST_BUFFER, |packets| 2 * packets * MSS);
        let losses = format!("loss = [{}]", self.losses().join(", "));
        let (nodes, begin, front, losses) = if self.loses_in_front {
            (r#"["a", "front", "b"]"#, "front", format!("{FRONT}{losses}"), String::new())
        } else {
            (r#"["a", "b"]"#, "a", String::new(), losses)
        };
        let mut text = format!(
            r#"
            name = "path"
            seed = {seed}
            time_limit = "{seconds} s"
            nodes = {nodes}
            [measure]
            series = "100 ms"
            steady = "off"
            rtt = false
            [hosts]
            rmem = ["4096 B", "{buffer} B", "{buffer} B"]
            wmem = ["4096 B", "{MOST_BUFFER} B", "{MOST_BUFFER} B"]
            receive_autotuning = false
            window_share = "half"
            segmentation_offload = {offload}
            delayed_acks = {delayed_acks}
            ecn = {ecn}
            {front}
            [[links]]
            name = "wire"
            between = ["{begin}", "b"]
            up = {{ rate = "100 Gbit/s", delay = "0 ms", queue = "1 GB" }}
            [links.down]
            queue = {{ bytes = "{queue} B"{marking} }}
            {bottleneck}
            {losses}
            "#,
            seed = self.seed,
            delayed_acks = self.delayed_acks,
            offload = self.offload,
            queue = self.queue_bytes.min(MOST_BUFFER),
            ecn = self.marks_from_us.is_some(),
            marking = self.marks_from_us.map_or_else(String::new, step),
            bottleneck = self.bottleneck(),
        );
        for (number, (cc, start)) in flows.iter().enumerate() {
            let _ = write!(
                text,
                r#"
                [[flows]]
                name = "flow{number}"
                from = "a"
                to = "b"
                start = "{start} s"
                duration = "{} s"
                cc = {}
                "#,
                seconds - start,
                choice(cc)
            );
        }
        text
    }

    fn bottleneck(&self) -> String {
        if self.step.is_some() || self.rate_step.is_some() {
            return "timeline = \"steps\"".to_owned();
        }
        let delay = match self.jitter {
            None => format!("\"{} us\"", self.rtt_us),
            Some((sd_us, every_us)) => format!(
                r#"{{ kind = "jitter", base = "{} us", every = "{every_us} us", body = {{ kind = "normal", sd = "{sd_us} us" }} }}"#,
                self.rtt_us
            ),
        };
        format!("rate = \"{} bit/s\"\ndelay = {delay}", self.rate_bps)
    }

    fn losses(&self) -> Vec<String> {
        let random = (self.loss > 0.0).then(|| format!("\"{} %\"", self.loss * 100.0));
        let bursts = self.bursts.map(|(period_us, length_us, loss)| {
            let loss = loss * 100.0;
            format!(
                r#"{{ kind = "periodic", period = "{period_us} us", length = "{length_us} us", loss = "{loss} %" }}"#
            )
        });
        random.into_iter().chain(bursts).collect()
    }

    /// Rate and delay over time, where one of them steps.
    fn timeline(&self) -> String {
        let row = |at_s: f64, rate_bps: u64, rtt_us: u64| {
            format!("{at_s},{},{}\n", rate_bps as f64 / 1e6, rtt_us as f64 / 1e3)
        };
        let mut text = String::from("time_s,rate_mbps,delay_ms\n") + &row(0.0, self.rate_bps, self.rtt_us);
        if let Some((at, longer_us)) = self.step {
            text += &row(at, self.rate_bps, self.rtt_us + longer_us);
        }
        if let Some((at, rate_bps)) = self.rate_step {
            text += &row(at, rate_bps, self.rtt_us);
        }
        text
    }
}

/// Queue management that only marks, from this wait on, us.
fn step(from_us: u64) -> String {
    format!(r#", aqm = {{ kind = "codel", target = "10 s", ce_threshold = "{from_us} us" }}"#)
}

/// An algorithm as a study names it, with the parameters that are not at their defaults.
fn choice(cc: &Selected) -> String {
    let mut text = format!("{{ name = \"{}\"", cc.algorithm().name());
    for (param, value) in cc.algorithm().params().iter().zip(cc.values()) {
        if *value != param.default {
            let _ = write!(text, ", {} = \"{}\"", param.name, param.text(*value));
        }
    }
    text + " }"
}

/// The result of one flow.
pub(crate) struct Outcome {
    /// Bytes that had arrived at the end of each 100 ms.
    pub(crate) delivered: Vec<u64>,
    /// Mean round trip of each 100 ms, us; 0: no sample.
    pub(crate) rtt_us: Vec<u64>,
    pub(crate) cwnd: Vec<u32>,
    pub(crate) sent_packets: u64,
    /// Packets that the path dropped, of all flows.
    pub(crate) lost_packets: u64,
}

impl Outcome {
    /// Mbit/s between two instants, s.
    pub(crate) fn mbps(&self, from: f64, to: f64) -> f64 {
        let at = |t: f64| self.delivered[((t * 10.0) as usize).min(self.delivered.len() - 1)];
        (at(to) - at(from)) as f64 * 8.0 / (to - from) / 1e6
    }
    /// Mean round trip between two instants, ms.
    pub(crate) fn rtt_ms(&self, from: f64, to: f64) -> f64 {
        let part = &self.rtt_us[(from * 10.0) as usize..(to * 10.0) as usize];
        let known: Vec<_> = part.iter().filter(|r| **r > 0).collect();
        known.iter().map(|r| **r as f64).sum::<f64>() / known.len().max(1) as f64 / 1e3
    }
    /// Seconds until this many bytes were delivered.
    pub(crate) fn time_of(&self, bytes: u64) -> f64 {
        self.delivered.iter().position(|d| *d >= bytes).map_or(f64::INFINITY, |i| i as f64 / 10.0)
    }
    pub(crate) fn lost_share(&self) -> f64 {
        self.lost_packets as f64 / self.sent_packets as f64
    }
}

/// Runs endless flows (algorithm, start in s) over a path.
pub(crate) fn run(path: &Path, flows: &[(&Selected, f64)], seconds: f64) -> Vec<Outcome> {
    let text = path.study(flows, seconds);
    let study = Study::parse(&text, "path.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut load = |name: &str| match name {
        "steps" => Ok(path.timeline().into_bytes()),
        _ => Err(format!("a test has no file {name}")),
    };
    let runs = study.plan(&Overrides::default(), &mut load).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let tables = perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("a run that ends").tables;
    let lost_packets = tables.links.dropped_packets.iter().sum();
    let outcome = |number: usize| {
        let name = format!("flow{number}");
        let blank = || vec![0; (seconds * 10.0).round() as usize + 1];
        let mut outcome = Outcome {
            delivered: blank(),
            rtt_us: blank(),
            cwnd: vec![0; (seconds * 10.0).round() as usize + 1],
            sent_packets: tables.flows.sent_packets[number].expect("TCP counts them"),
            lost_packets,
        };
        let series = &tables.series;
        let mut bytes = 0.0;
        for row in (0..series.run.len()).filter(|row| *series.flow[*row] == *name) {
            let at = ((series.t_s[row] * 10.0).round() as usize).min(outcome.delivered.len() - 1);
            bytes += series.goodput_mbps[row] * 1e6 / 8.0 * 0.1;
            outcome.delivered[at] = bytes.round() as u64;
            outcome.rtt_us[at] = (series.rtt_mean_ms[row].unwrap_or(0.0) * 1e3) as u64;
            outcome.cwnd[at] = series.cwnd_packets[row].unwrap_or(0);
        }
        outcome
    };
    (0..flows.len()).map(outcome).collect()
}

/// A link that is no bottleneck, up to the losses of its direction down.
const FRONT: &str = r#"
[[links]]
name = "front"
between = ["a", "front"]
up = { rate = "100 Gbit/s", delay = "0 ms", queue = "1 GB" }
[links.down]
rate = "100 Gbit/s"
delay = "0 ms"
queue = "1 GB"
"#;
/// Payload of a segment with timestamps.
pub(crate) const MSS: u64 = 1448;
/// Larger than any test needs, bytes.
const MOST_BUFFER: u64 = 1_000_000_000;
