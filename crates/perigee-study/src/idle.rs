//! Settings of a study that have an effect at none of its points.

use perigee_cc::Selected;
use perigee_link::{Full, QueueSpec, RateSpec, TdmaSpec, TerminalOf};
use perigee_settings::{Config, System};

use crate::run::{FlowSpec, Scenario, Traffic};
use crate::transport::Tcp;

/// Notes on settings that are without effect at each of these points that has them: a sentence each, with what gives it an effect.
/// None where paths are real, whose links are not known. What a system of hosts has by its name is none of them.
pub fn without_effect<'a>(points: impl Iterator<Item = &'a Scenario>) -> Vec<String> {
    let mut found: Vec<(String, bool)> = Vec::new();
    for said in points.flat_map(|point| [hosts(point), flows(point), links(point), measurements(point)].concat()) {
        match found.iter_mut().find(|(note, _)| *note == said.note) {
            Some((_, has_effect)) => *has_effect |= said.has_effect,
            None => found.push((said.note, said.has_effect)),
        }
    }
    found.into_iter().filter(|(_, has_effect)| !has_effect).map(|(note, _)| note).collect()
}

/// A note on a setting, which is due unless the setting has an effect at some point.
#[derive(Clone)]
struct Said {
    note: String,
    has_effect: bool,
}

/// A setting of hosts that acts only beside another one, or with some congestion controls.
struct Dependent {
    setting: &'static str,
    is_set: fn(&Config) -> bool,
    /// Whether it acts with this peer and congestion control.
    acts: fn(&Config, &Config, &Selected) -> bool,
    /// Reason without an effect: these hosts have it; and what gives the setting one.
    why: &'static str,
    fix: &'static str,
}

fn hosts(point: &Scenario) -> Vec<Said> {
    let ends: Vec<_> = point.flows.iter().filter_map(|flow| flow.traffic.tcp()).flat_map(ends_of).collect();
    let said = DEPENDENT.iter().filter_map(|Dependent { setting, is_set, acts, why, fix }| {
        let set = || ends.iter().filter(|(config, ..)| is_set(config));
        let has_effect = set().any(|(config, peer, cc)| acts(config, peer, cc));
        let is_said = has_effect || set().any(|(config, ..)| is_beside_its_system(config, setting));
        let note = format!("`{setting}` of hosts is without effect: those that have it have {why}; {fix}");
        is_said.then_some(Said { note, has_effect })
    });
    said.collect()
}

/// Settings of all ends of a flow's connections, with those of their peers and their congestion control.
fn ends_of(tcp: &Tcp) -> impl Iterator<Item = (&Config, &Config, &Selected)> {
    let legs = tcp.legs.iter().flat_map(|leg| {
        let (sender, receiver) = (&leg.sender, &leg.receiver);
        [(&sender.config, &receiver.config, &sender.cc), (&receiver.config, &sender.config, &receiver.cc)]
    });
    [(&tcp.from, &tcp.to, &tcp.cc), (&tcp.to, &tcp.from, &tcp.cc)].into_iter().chain(legs)
}

/// Whether a host has its own value of a setting, beside the system that it is nearest to.
fn is_beside_its_system(config: &Config, name: &str) -> bool {
    System::nearest(config).1.iter().any(|(setting, _)| setting.name == name)
}

fn flows(point: &Scenario) -> Vec<Said> {
    if point.links.is_empty() {
        return Vec::new();
    }
    let said = point.flows.iter().filter(|flow| flow.is_low).map(|flow| {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let several = flow.name.rsplit_once('.').filter(|(_, number)| is_number(number));
        let name = several.map_or(&*flow.name, |(declared, _)| declared);
        let fix = "give a queue kind = \"priority\"";
        let note = format!("`priority` of flow `{name}` is without effect: no queue on its way has two classes; {fix}");
        Said { note, has_effect: queues_of(point, flow).any(has_classes) }
    });
    said.collect()
}

/// The queues on both ways of a flow; all of them where routes change.
fn queues_of<'a>(point: &'a Scenario, flow: &'a FlowSpec) -> impl Iterator<Item = &'a QueueSpec> {
    let on_its_ways = |link: u32| flow.forward.contains(&link) || flow.back.contains(&link);
    let links = (0..).zip(&point.links);
    links.filter(move |(link, _)| !point.reroutes.is_empty() || on_its_ways(*link)).map(|(_, link)| &link.spec.queue)
}

fn has_classes(queue: &QueueSpec) -> bool {
    queue.full == Full::DropLow
}

fn links(point: &Scenario) -> Vec<Said> {
    let has_low = point.flows.iter().any(|flow| flow.is_low);
    let said = point.links.iter().flat_map(|link| {
        let (queue, name) = (&link.spec.queue, &link.name);
        let said = |note: String, has_effect| Some(Said { note, has_effect });
        let idle = format!("the kind of the queue of link {name} is without effect: ");
        let (limit, class) = match queue.full {
            Full::DropTail => (None, None),
            Full::DropFront => (said(idle + "it has no limit; add bytes, packets or time", is_limited(queue)), None),
            Full::DropLow => {
                let dropped =
                    format!("the queue of link {name} has no limit, so that nothing is dropped; add bytes or packets");
                let low = idle + "no flow has low priority; add priority = \"low\" to one";
                (said(dropped, is_limited(queue)), said(low, has_low))
            }
        };
        let alone = format!(
            "`background` of link {name} is without effect: its channel has no terminal beside it; raise terminals"
        );
        let background = match &link.spec.rate {
            RateSpec::Tdma(tdma) if tdma.background.as_bps() > 0 => said(alone, has_others(tdma)),
            _ => None,
        };
        [limit, class, background].into_iter().flatten()
    });
    said.collect()
}

/// Measurements of one transport, where all flows have another.
fn measurements(point: &Scenario) -> Vec<Said> {
    let measure = &point.measure;
    let has_tcp = point.flows.iter().any(|flow| flow.traffic.tcp().is_some());
    let has_quic = point.flows.iter().any(|flow| matches!(flow.traffic, Traffic::Quic { .. }));
    let of_tcp = [("events", measure.events), ("capture", measure.capture.is_some())];
    let of_tcp = of_tcp.into_iter().filter(|(_, is_set)| *is_set && has_quic).map(|(key, _)| {
        let fix = "flows over QUIC have measure.qlog, measure.pcap and measure.states";
        Said { note: format!("`measure.{key}` is without effect: no flow is over TCP; {fix}"), has_effect: has_tcp }
    });
    let of_quic = (has_tcp && !measure.qlog.is_empty()).then(|| {
        let note = "`measure.qlog` is without effect: no flow is over QUIC; add transport = \"quic\" to one";
        Said { note: note.to_owned(), has_effect: has_quic }
    });
    of_tcp.chain(of_quic).collect()
}

fn is_limited(queue: &QueueSpec) -> bool {
    queue.bytes.is_some() || queue.packets.is_some() || queue.time.is_some() || queue.bytes_over_time.is_some()
}

/// Whether a channel may have terminals through which no flow of the study goes.
fn has_others(tdma: &TdmaSpec) -> bool {
    tdma.terminals > 1 || tdma.terminal_of == TerminalOf::Flow
}

const DEPENDENT: [Dependent; 6] = [
    Dependent {
        setting: "impatient_newreno",
        is_set: |config| config.impatient_newreno,
        acts: |config, peer, _| !(config.sack && peer.sack),
        why: "SACK",
        fix: "add sack = false",
    },
    Dependent {
        setting: "rate_halving",
        is_set: |config| config.rate_halving,
        acts: |config, _, _| !config.prr,
        why: "proportional rate reduction",
        fix: "add prr = false",
    },
    Dependent {
        setting: "late_ack_events",
        is_set: |config| !config.late_ack_events,
        acts: |_, _, cc| cc.algorithm().ops().is_none_or(|ops| ops.in_ack_event.is_some()),
        why: "congestion controls that do not ask",
        fix: "it is for those such as dctcp and westwood_plus",
    },
    of_trains("train_refill", |config| !config.train_refill),
    of_trains("short_train_waits", |config| !config.short_train_waits),
    of_trains("train_push", |config| !config.train_push),
];

/// A setting, which is on by default, of the trains of segmentation offload.
const fn of_trains(setting: &'static str, is_set: fn(&Config) -> bool) -> Dependent {
    let (why, fix) = ("no segmentation offload", "add segmentation_offload = true");
    Dependent { setting, is_set, acts: |config, _, _| config.segmentation_offload, why, fix }
}
