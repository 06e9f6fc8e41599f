//! Estimates, before a run, its duration and whether this machine can keep it in real time.
//!
//! Two short runs, over one link and over three, measure the cost of a packet, and a third one that of a packet over QUIC. The load of
//! a run is bounded by its links' rates, as if each flow took the whole rate of its path.

use std::ops::ControlFlow;
use std::path::Path;

use perigee_study::{FlowSpec, Overrides, Run, Study, Traffic};
use perigee_units::Time;

use crate::run::captures::CaptureFiles;
use crate::run::duration::{least, Busy};
use crate::run::{run, RunError};

/// Cost of a data packet in the driver's thread, its share of the acknowledgements included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Cost in both TCPs.
    pub ends: Time,
    /// Cost on each link.
    pub hop: Time,
    /// Cost of a data packet in the thread of a flow over QUIC: both ends, keys and sockets; zero if it was not measured.
    pub quic: Time,
}

/// Estimates for a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Busy share of the driver's time while all flows take the rates of their paths, or of the busiest thread of a flow over QUIC, or of
    /// all cores with both, whichever is largest; above 1 they fall behind.
    pub load: f64,
    /// Data packets per second at that load, over all links.
    pub packets_per_s: f64,
    /// Data packets of the whole run over all links: each flow takes the mean rate of its path for as long as it lasts.
    pub packets: f64,
    /// Shortest duration of the run.
    pub least: Time,
    /// Longest duration of the run.
    pub most: Time,
}

impl Capacity {
    /// Measures the costs in half a second, and that of QUIC if asked; needs the privileges of a run.
    ///
    /// # Errors
    /// Those of a run.
    pub fn measure(has_quic: bool) -> Result<Self, RunError> {
        let (one, three) = (cost_ns(1, "tcp")?, cost_ns(3, "tcp")?);
        let quic = if has_quic { cost_ns(1, "quic")? } else { 0 };
        // A disturbed measurement is bounded: a link costs something, and no more than the whole first run.
        let hop = (three.saturating_sub(one) / 2).clamp(one / 10, one);
        Ok(Self { ends: Time::from_nanos(one - hop), hop: Time::from_nanos(hop), quic: Time::from_nanos(quic) })
    }

    /// Estimates a run on this machine.
    pub fn outlook(&self, run: &Run) -> Outlook {
        let scenario = &*run.scenario;
        let packet_bits =
            8.0 * f64::from(crate::run::settings::settings(scenario).map_or(1500, |settings| settings.mtu));
        let peaks: Vec<f64> = scenario.links.iter().map(|link| link.spec.rate.peak_bps()).collect();
        let (mut offered, mut ending) = (vec![0.0; peaks.len()], vec![0.0; peaks.len()]);
        let (mut of_quic, mut busiest) = (0.0f64, 0.0f64);
        for flow in &scenario.flows {
            let rate = flow.forward.iter().map(|link| peaks[*link as usize]).fold(asked_bps(flow), f64::min);
            flow.forward.iter().for_each(|link| offered[*link as usize] += rate);
            if let Some(last) = flow.forward.last() {
                ending[*last as usize] += rate;
            }
            if flow.traffic.quic().is_some() {
                let load = rate / packet_bits * self.quic.as_secs_f64();
                (of_quic, busiest) = (of_quic + load, busiest.max(load));
            }
        }
        let carried = |bps: &[f64]| bps.iter().zip(&peaks).map(|(bps, peak)| bps.min(*peak)).sum::<f64>() / packet_bits;
        let (over_links, over_paths) = (carried(&offered), carried(&ending));
        let driver = over_links * self.hop.as_secs_f64() + over_paths * self.ends.as_secs_f64();
        let load = driver.max(busiest).max((driver + of_quic) / cores());
        let (least, most) = (least(run).min(scenario.time_limit), scenario.time_limit);
        let mut busy: Vec<Busy> = peaks.iter().map(|_| Busy::default()).collect();
        for flow in &scenario.flows {
            let means = flow.forward.iter().map(|link| scenario.links[*link as usize].spec.rate.mean_bps());
            let rate = means.fold(asked_bps(flow), f64::min);
            let begins = flow.start_in(run.seed);
            flow.forward.iter().for_each(|link| busy[*link as usize].add(flow.traffic.amount(), begins, most, rate));
        }
        let bits = busy.into_iter().zip(&scenario.links).map(|(busy, link)| busy.bits(link.spec.rate.mean_bps()));
        let packets = (bits.sum::<f64>() / packet_bits).min(over_links * least.as_secs_f64());
        Outlook { load, packets_per_s: over_links, packets, least, most }
    }
}

/// Cost of a packet over a number of links in series.
fn cost_ns(links: u32, transport: &str) -> Result<u64, RunError> {
    let plan = plan(links, transport);
    let files = CaptureFiles { folder: Path::new("."), prefix: "" };
    let (tables, _) = run(&plan, &files, &mut |_| ControlFlow::Continue(()))?;
    let packets = tables.releases.released_packets.first().copied().unwrap_or(0).max(1);
    Ok(MEASURED.as_nanos() / packets)
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// A run over links without delay.
fn plan(links: u32, transport: &str) -> Run {
    use std::fmt::Write as _;

    let nodes: Vec<String> = (0..=links).map(|node| format!("\"n{node}\"")).collect();
    let mut text = format!("name = \"calibration\"\nnodes = [{}]\n", nodes.join(", "));
    for (link, ends) in nodes.windows(2).enumerate() {
        let ends = ends.join(", ");
        let _ = writeln!(
            text,
            "[[links]]\nname = \"l{link}\"\nbetween = [{ends}]\nrate = \"1000 Gbit/s\"\ndelay = \"0 ms\""
        );
    }
    let ms = MEASURED.as_millis();
    let _ = writeln!(
        text,
        "[[flows]]\nname = \"f\"\nfrom = \"n0\"\nto = \"n{links}\"\nduration = \"{ms} ms\"\ncc = \"reno\"\n\
         transport = \"{transport}\""
    );
    let study = Study::parse(&text, "calibration").and_then(|study| {
        let mut none = |file: &str| Err(format!("{file} is not needed here"));
        study.plan(&Overrides::default(), &mut none)
    });
    study.expect("a study that is right").remove(0)
}

/// The rate that a flow can take.
fn asked_bps(flow: &FlowSpec) -> f64 {
    match &flow.traffic {
        Traffic::Tcp { .. } | Traffic::Population { .. } | Traffic::Quic { .. } => f64::INFINITY,
        Traffic::Datagrams(datagrams) => datagrams.rate_bps(),
    }
}

/// Duration of each of the two runs.
const MEASURED: Time = Time::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_US: Capacity =
        Capacity { ends: Time::from_micros(4), hop: Time::from_micros(2), quic: Time::from_micros(10) };

    fn planned(links: &str, flows: &str) -> Run {
        let text = format!("name = \"load\"\nnodes = [\"a\", \"b\", \"c\"]\n{links}\n{flows}");
        let study = Study::parse(&text, "load.toml").unwrap_or_else(|error| panic!("{error}"));
        let mut none = |file: &str| Err(format!("{file} is not needed here"));
        study.plan(&Overrides::default(), &mut none).unwrap_or_else(|error| panic!("{error}")).remove(0)
    }

    fn chain(first: &str, second: &str) -> String {
        let link = |name, ends, rate| {
            format!("[[links]]\nname = \"{name}\"\nbetween = {ends}\nrate = \"{rate}\"\ndelay = \"100 ms\"\n")
        };
        link("one", "[\"a\", \"b\"]", first) + &link("two", "[\"b\", \"c\"]", second)
    }

    fn flow(name: &str, what: &str) -> String {
        format!("[[flows]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"c\"\n{what}\n")
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.01
    }

    #[test]
    fn the_load_is_that_of_the_slowest_link_over_all_links_of_the_path() {
        let run = planned(&chain("1 Gbit/s", "120 Mbit/s"), &flow("f", "size = \"150 MB\""));
        let outlook = TWO_US.outlook(&run);
        // 10,000 packets a second, each over two links.
        assert!(near(outlook.packets_per_s, 20_000.0), "{outlook:?}");
        assert!(near(outlook.load, 0.08), "{outlook:?}");
        assert!(near(outlook.least.as_secs_f64(), 10.0 + 1.5 * 0.4), "{outlook:?}");
        assert!(outlook.most > outlook.least);
    }

    #[test]
    fn the_thread_of_a_flow_over_quic_may_be_busier_than_the_driver() {
        let run = planned(&chain("1 Gbit/s", "1200 Mbit/s"), &flow("f", "size = \"150 MB\"\ntransport = \"quic\""));
        let outlook = TWO_US.outlook(&run);
        // 83,333 packets a second of 10 us each in the flow's thread, and of 8 us in the driver's.
        let driver = 83_333.0 * 8e-6;
        assert!(near(outlook.load, (83_333.0 * 10e-6_f64).max((driver + 0.83333) / cores())), "{outlook:?}");
    }

    #[test]
    fn flows_that_share_a_link_do_not_ask_for_more_than_it_carries_and_take_turns() {
        let flows = flow("f", "size = \"150 MB\"") + &flow("g", "size = \"150 MB\"");
        let outlook = TWO_US.outlook(&planned(&chain("120 Mbit/s", "120 Mbit/s"), &flows));
        assert!(near(outlook.load, 0.08), "{outlook:?}");
        assert!(near(outlook.least.as_secs_f64(), 20.0), "{outlook:?}");
    }

    #[test]
    fn a_faster_machine_is_asked_for_less_and_a_link_of_100_gbit_s_for_more_than_there_is() {
        let run = planned(&chain("100 Gbit/s", "100 Gbit/s"), &flow("f", "duration = \"10 s\""));
        assert!(TWO_US.outlook(&run).load > 50.0);
        let fast = Capacity { ends: Time::ZERO, hop: Time::from_nanos(50), quic: Time::ZERO };
        assert!(fast.outlook(&run).load < 1.0);
        assert_eq!(fast.outlook(&run).least, Time::from_secs(10));
    }

    #[test]
    fn datagrams_and_pings_ask_for_what_they_send() {
        let udp = "kind = \"udp\"\nrate = \"12 Mbit/s\"\npacket = \"1500 B\"\nduration = \"3 s\"";
        let outlook = TWO_US.outlook(&planned(&chain("1 Gbit/s", "1 Gbit/s"), &flow("f", udp)));
        assert!(near(outlook.packets_per_s, 2000.0), "{outlook:?}");
        assert!(near(outlook.packets, 6000.0), "{outlook:?}");
        assert!(near(outlook.least.as_secs_f64(), 3.2), "{outlook:?}");
    }

    #[test]
    fn flows_that_pause_between_their_turns_send_nothing_in_the_meantime() {
        let turns = flow("f", "duration = \"2 s\"\ncount = 3\nstagger = \"10 s\"");
        let outlook = TWO_US.outlook(&planned(&chain("120 Mbit/s", "120 Mbit/s"), &turns));
        assert!(near(outlook.least.as_secs_f64(), 22.0), "{outlook:?}");
        assert!(near(outlook.packets, 3.0 * 2.0 * 20_000.0), "{outlook:?}");
        let at_once = flow("f", "duration = \"2 s\"\ncount = 3\nstagger = \"1 s\"");
        let outlook = TWO_US.outlook(&planned(&chain("120 Mbit/s", "120 Mbit/s"), &at_once));
        assert!(near(outlook.packets, 4.0 * 20_000.0), "{outlook:?}");
    }

    #[test]
    fn a_recorded_rate_counts_by_its_best_second() {
        let rate = |mbps| perigee_units::Rate::from_mbps(mbps);
        let points = [(0, 10.0), (500, 1000.0), (600, 10.0), (1000, 50.0)];
        let points = points.map(|(ms, mbps)| (Time::from_millis(ms), rate(mbps)));
        let steps = perigee_link::Steps::new(points, Some(Time::from_secs(3))).expect("steps");
        let recorded = perigee_link::RateSpec::Trace(steps.into());
        assert!(near(recorded.peak_bps(), 109e6) && near(recorded.mean_bps(), 209e6 / 3.0));
    }

    #[test]
    fn what_is_measured_is_something_that_machines_have() {
        if let Err(error) = crate::check(&plan(1, "quic")) {
            return println!("skipped: {error}");
        }
        let found = Capacity::measure(true).unwrap_or_else(|error| panic!("{error}"));
        assert!(found.hop > Time::ZERO && found.ends + found.hop < Time::from_millis(1), "{found:?}");
        assert!(found.quic > found.hop && found.quic < Time::from_millis(1), "{found:?}");
        println!("{found:?}");
    }
}
