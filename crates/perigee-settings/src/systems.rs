//! The TCP of systems by name: their values of the settings where these are not the settings' own defaults, each with its source.

use perigee_units::{Bytes, Time};

use crate::list::{Config, Setting, SETTINGS};
use crate::value::Value;

/// A system whose TCP a host can have.
#[derive(Debug)]
pub struct System {
    /// Its name in studies: `hosts.like`.
    pub name: &'static str,
    /// Its name in reports.
    pub title: &'static str,
    /// Description for users, with the behaviour that is not modelled.
    pub about: &'static str,
    /// The comparison of its values with the system itself, if there is one.
    pub held: &'static str,
    /// Its values where they are not the settings' defaults.
    pub presets: &'static [Preset],
}

/// A system's value of one setting.
#[derive(Debug)]
pub struct Preset {
    /// The name of the setting.
    pub setting: &'static str,
    /// Its value.
    pub value: Value,
    /// Where the value comes from.
    pub source: &'static str,
}

impl System {
    /// The system of this name.
    ///
    /// ```
    /// use perigee_settings::System;
    ///
    /// let old = System::named("linux-2.6.20").unwrap().config();
    /// assert_eq!((old.initial_window, old.rack), (2, false));
    /// assert!(System::named("linux").is_none());
    /// ```
    pub fn named(name: &str) -> Option<&'static Self> {
        SYSTEMS.iter().find(|system| system.name == name)
    }

    /// The settings of a host with this system.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        for preset in self.presets {
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == preset.setting) {
                setting.set(&mut config, preset.value);
            }
        }
        config
    }

    /// The system that a host is nearest to, and the settings in which it is not that system's, with the host's values. Nearest
    /// is the one with the fewest of them, of equals the first in [`SYSTEMS`].
    ///
    /// ```
    /// use perigee_settings::{Config, System};
    ///
    /// let modern = System::named("linux-6.18").unwrap().config();
    /// let (system, but) = System::nearest(&Config { sack: false, ..modern });
    /// assert_eq!((system.title, but.len(), but[0].0.name), ("Linux 6.18", 1, "sack"));
    /// ```
    pub fn nearest(config: &Config) -> (&'static Self, Vec<(&'static Setting, Value)>) {
        let all = SYSTEMS.iter().map(|system| (system, differences(config, &system.config())));
        all.min_by_key(|(_, differences)| differences.len()).unwrap_or((&SYSTEMS[0], Vec::new()))
    }
}

/// The settings in which `config` is not `other`, with its values, in the order of [`SETTINGS`].
pub(crate) fn differences(config: &Config, other: &Config) -> Vec<(&'static Setting, Value)> {
    let values = SETTINGS.iter().map(|setting| (setting, setting.get(config)));
    values.filter(|(setting, value)| *value != setting.get(other)).collect()
}

const fn preset(setting: &'static str, value: Value, source: &'static str) -> Preset {
    Preset { setting, value, source }
}

const fn buffer(initial: u64, largest: u64) -> Value {
    Value::Sizes([Bytes::new(4096), Bytes::new(initial), Bytes::new(largest)])
}

/// A receive buffer of at most 6 MiB.
const fn buffer_to_6_mib(initial: u64, source: &'static str) -> Preset {
    preset("rmem", buffer(initial, 6_291_456), source)
}

const HALF_WINDOW: Preset = preset(
    "window_share",
    Value::Choice("half"),
    "`tcp_adv_win_scale` = 1; the measured `scaling_ratio` came with 6.6",
);
const DOUBLING_SYN: Preset =
    preset("syn_linear_timeouts", Value::Count(0), "RFC 6298, 5.5; Linux's `tcp_syn_linear_timeouts` came with 6.5");
const CUT_BY_RETRANSMISSIONS: Preset = preset(
    "initial_window_cut",
    Value::Choice("several"),
    "`tcp_init_metrics`: `total_retrans > 1`; needless timeouts are told apart since 5.2",
);
const NO_OFFLOAD: Preset = preset("segmentation_offload", Value::Switch(false), "each segment is a packet of its own");
const NO_REFILL: Preset = preset("train_refill", Value::Switch(false), "`tcp_grow_skb` came with Linux 6.10");
const EARLY_ACK_EVENTS: Preset = preset(
    "late_ack_events",
    Value::Switch(false),
    "`tcp_in_ack_event` moved behind `tcp_clean_rtx_queue` with Linux 6.16",
);
const LONG_TRAIN_WAITS: Preset = preset(
    "short_train_waits",
    Value::Switch(false),
    "`tcp_tso_should_defer` before 6.19 and the stable releases of the end of 2025",
);
const NO_PUSH: Preset = preset("train_push", Value::Switch(false), "PSH on TSO packets came with Linux 5.4");
const NO_COMPRESSION: Preset =
    preset("ack_compression", Value::Switch(false), "`tcp_comp_sack_nr` came with Linux 4.18");
const BUFFER_OF_6_1: Preset =
    buffer_to_6_mib(131_072, "`sysctl net.ipv4.tcp_rmem` of 6.1; 87 kB at first before 4.20, 32 MiB since 6.16");
/// Linux 6.1 as of 2026.
const LATE_6_1: &[Preset] = &[BUFFER_OF_6_1, HALF_WINDOW, NO_REFILL, EARLY_ACK_EVENTS, DOUBLING_SYN];

/// The systems, the newest Linux first.
pub const SYSTEMS: &[System] = &[
    System {
        name: "linux-6.18",
        title: "Linux 6.18",
        about: "Linux 6.18, a kernel with long-term support: the settings' defaults. `make validate` compares the simulator with it.",
        held: "`make validate` and `validation/switches`, beside a running kernel; the machine of the recorded figures ran 6.18.",
        presets: &[],
    },
    System {
        name: "linux-6.1",
        title: "Linux 6.1",
        about: "Linux 6.1, a kernel with long-term support (Debian 12). The recorded paths of the model's validation are its.",
        held: "The recorded paths of the model's validation, whose hosts ran 6.1. Its values have the source named with each.",
        presets: LATE_6_1,
    },
    System {
        name: "linux-5.10",
        title: "Linux 5.10",
        about: "Linux 5.10, a kernel with long-term support (Debian 11). But for waits for trains it is Linux 6.1 in all that is \
            modelled. Not modelled: its trains do not grow over short round trips (`tcp_tso_rtt_log` came with 5.18), \
            and it delays acknowledgements from a connection's third answer on only (`TCP_PINGPONG_THRESH` = 3).",
        held: "Not held against the system: each value has its source line or the release that changed it.",
        presets: &[
            BUFFER_OF_6_1,
            HALF_WINDOW,
            NO_REFILL,
            LONG_TRAIN_WAITS,
            EARLY_ACK_EVENTS,
            DOUBLING_SYN,
        ],
    },
    System {
        name: "linux-4.15",
        title: "Linux 4.15",
        about: "Linux 4.15 (Ubuntu 18.04).",
        held: "Not held against the system: each value has its source line or the release that changed it.",
        presets: &[
            buffer_to_6_mib(87_380, "`tcp_init` of 4.15; the initial 128 KiB came with 4.20"),
            HALF_WINDOW,
            preset("first_receive_window", Value::Count(20),
                "`tcp_default_init_rwnd`: twice the initial window; some 64 kB since 4.20"),
            NO_COMPRESSION,
            NO_REFILL,
            NO_PUSH,
            LONG_TRAIN_WAITS,
            EARLY_ACK_EVENTS,
            DOUBLING_SYN,
            CUT_BY_RETRANSMISSIONS,
        ],
    },
    System {
        name: "linux-2.6.20",
        title: "Linux 2.6.20",
        about: "Linux 2.6.20 of 2007. Not modelled: its TSO, which fills trains without regard to their rate; FACK, with which \
            it finds lost retransmissions; the bound of bursts after reordering.",
        held: "Not held against the system: each value has its source line or the release that changed it.",
        presets: &[
            preset("initial_window", Value::Count(2),
                "`tcp_v4_init_sock`; `tcp_init_metrics` sets the 3 of RFC 3390 only where the route remembers a round \
                 trip; 10 since 2.6.39"),
            preset("initial_window_cut", Value::Choice("any"),
                "`tcp_retransmit_timer` enters Loss for a SYN, too; more than one since 3.1"),
            preset("initial_rto", Value::Duration(Time::from_secs(3)), "`TCP_TIMEOUT_INIT`; 1 s since 3.1"),
            preset("syn_retries", Value::Count(5), "`TCP_SYN_RETRIES`; 6 since 3.7"),
            preset("rmem", buffer(87_380, 4 << 20), "`tcp_init` of 2.6.20, with 1 GB of memory and more"),
            preset("first_receive_window", Value::Count(4), "`tcp_select_initial_window`, for segments of up to 1460 bytes"),
            preset("receive_growth", Value::Choice("twice"),
                "`tcp_rcv_space_adjust`; 3.13 sizes the buffer ahead of slow start"),
            preset("route_metrics", Value::Switch(true), "`tcp_no_metrics_save` = 0"),
            preset("rack", Value::Switch(false), "RACK came with 4.4"),
            preset("tlp", Value::Switch(false), "the tail loss probe came with 3.10"),
            preset("frto", Value::Switch(false), "`tcp_frto` = 0; 2 since 2.6.24"),
            preset("prr", Value::Switch(false), "PRR came with 3.2"),
            preset("rate_halving", Value::Switch(true), "`tcp_cwnd_down`: the window falls with every second ACK"),
            preset("abc", Value::Switch(false), "`tcp_abc` = 0; windows grow by acknowledged segments since 3.13 and 4.0"),
            preset("window_share", Value::Choice("three-quarters"), "`sysctl_tcp_adv_win_scale` = 2; 1 since 3.4"),
            EARLY_ACK_EVENTS,
            DOUBLING_SYN,
            NO_OFFLOAD,
            NO_COMPRESSION,
        ],
    },
    System {
        name: "windows-11",
        title: "Windows 11",
        about: "Windows 11 and Server 2019 to 2025, from their settings for the Internet, as sender and as receiver. Equal to Linux in \
            what is modelled: a first window of 10, delayed acknowledgements of 40 ms for each second segment, no pacing and no ECN; \
            its congestion control is Cubic, which a study sets (`cc` of a flow). Not modelled: its timers of 15.6 ms, the \
            limit of its send backlog, trains of its network cards, and how its window grows below 16 MB.",
        held: "Not held against the system: each value has its source, or is chosen.",
        presets: &[
            preset("rmem", buffer(65_535, 16_776_960),
                "auto-tuning level Normal: 64 kB at first, and a scale of 8 (Microsoft Learn, from memory, not checked against its text)"),
            preset("segment_memory", Value::Size(Bytes::new(1460)), "chosen: the window is of payload, and no memory counts beside it"),
            preset("timestamps", Value::Switch(false), "Get-NetTCPSetting: Timestamps Disabled"),
            preset("quick_acks", Value::Switch(false), "Get-NetTCPSetting: DelayedAckFrequency 2, from the first segment on"),
            NO_COMPRESSION,
            preset("slow_start_after_idle", Value::Switch(false), "Get-NetTCPSetting: CwndRestart False"),
            NO_REFILL,
            preset("late_ack_events", Value::Switch(false), "chosen: Linux's order of events before 6.16"),
            preset("rto_min", Value::Duration(Time::from_millis(300)), "Get-NetTCPSetting: MinRto(ms) 300"),
            preset("rto_floor", Value::Choice("timeout"), "chosen: RFC 6298, 2.4, as the name of MinRto says"),
            preset("syn_retries", Value::Count(4), "Get-NetTCPSetting: MaxSynRetransmissions 4"),
            DOUBLING_SYN,
        ],
    },
    System {
        name: "macos-15",
        title: "macOS 15",
        about: "macOS 15 of 2024, from its published kernel (XNU 11215): as sender and as receiver. Equal to Linux in what is \
            modelled: a first window of 10, RACK and a tail loss probe, five SYNs before timeouts double, no pacing; a timeout is the \
            smoothed round trip, four deviations and 200 ms; its congestion control is Cubic, which a study sets (`cc` of a flow). Not \
            modelled: that it asks for ECN on some paths, 16 immediate acknowledgements after a loss or an idle time, and \
            its timers, which come up to 100 ms late.",
        held: "Not held against the system: each value has its source, or is chosen.",
        presets: &[
            preset("rmem", buffer(131_072, 4 << 20),
                "`net.inet.tcp.recvspace` and `autorcvbufmax` of machines with 8 MB `kern.ipc.maxsockbuf`; half on small ones"),
            preset("wmem", buffer(131_072, 4 << 20), "`net.inet.tcp.sendspace` and `autosndbufmax` of the same"),
            preset("segment_memory", Value::Size(Bytes::new(1448)), "chosen: the window is of payload, and no memory counts beside it"),
            preset("delayed_ack_max", Value::Duration(Time::from_millis(100)), "`tcp_delack` of `tcp_timer.c`"),
            preset("ack_every", Value::Count(256), "`tcp_cc_delay_ack`: up to 256 segments or a quarter of the window"),
            NO_COMPRESSION,
            preset("quick_acks", Value::Switch(false), "`tcp_cc_delay_ack`: pushed segments are no reason to acknowledge"),
            NO_REFILL,
            preset("late_ack_events", Value::Switch(false), "chosen: Linux's order of events before 6.16"),
            preset("rto_max", Value::Duration(Time::from_secs(64)), "`TCPTV_REXMTMAX` of `tcp_timer.h`"),
        ],
    },
    System {
        name: "rfc",
        title: "the RFCs",
        about: "What the standards track says, without what only Linux does: RFC 9293, 5681, 6298, 6675, 7323, 8985, 5682, 9937.",
        held: "Not a system: each value has the section that asks for it.",
        presets: &[
            preset("initial_window", Value::Count(3), "RFC 5681, 3.1, for segments of 1095 to 2190 bytes"),
            preset("initial_window_cut", Value::Choice("any"), "RFC 5681, 3.1: one segment if the SYN or SYN-ACK is lost"),
            preset("rto_min", Value::Duration(Time::from_secs(1)), "RFC 6298, 2.4"),
            preset("rto_floor", Value::Choice("timeout"), "RFC 6298, 2.4: the RTO is rounded up, not a part of it"),
            preset("quick_acks", Value::Switch(false), "RFC 5681, 4.2 knows none"),
            preset("delayed_ack_max", Value::Duration(Time::from_millis(500)), "RFC 5681, 4.2: within 500 ms"),
            DOUBLING_SYN,
            NO_OFFLOAD,
            NO_COMPRESSION,
        ],
    },
    System {
        name: "ns-2",
        title: "ns-2",
        about: "The agents TCP/Sack1 and TCPSink/Sack1 of ns-2.35, whose windows a study sets.",
        held: "`make validate-ns2`: scripted transfers for each of its settings, beside ns-2 itself.",
        presets: &[
            preset("initial_window", Value::Count(2), "`ns-default.tcl`: windowInit_ 2"),
            preset("initial_window_cut", Value::Choice("any"),
                "`tcp.cc`, timeout(): one segment, of the first packet, too; its agents have no SYN"),
            preset("initial_rto", Value::Duration(Time::from_secs(3)), "`ns-default.tcl`: rtxcur_init_ 3.0"),
            preset("timestamps", Value::Switch(false), "`ns-default.tcl`: timestamps_ false"),
            preset("impatient_newreno", Value::Switch(true),
                "`ns-default.tcl`: newreno_changes1_ 1 of TCP/Newreno, where a study has `sack = false`"),
            preset("dsack", Value::Switch(false), "`ns-default.tcl`: generateDSacks_ false"),
            preset("rack", Value::Switch(false), "`tcp-sack1.cc`: numdupacks_ 3"),
            preset("tlp", Value::Switch(false), "`tcp.cc` has none"),
            preset("frto", Value::Switch(false), "`ns-default.tcl`: frto_enabled_ 0"),
            preset("prr", Value::Switch(false), "`tcp-sack1.cc`: the window is halved at once"),
            preset("abc", Value::Switch(false), "`tcp.cc`, opencwnd(): one increase for each acknowledgement"),
            preset("delayed_acks", Value::Switch(false), "`tcp-sink.cc`: TCPSink/Sack1 acknowledges each packet"),
            preset("delayed_ack_max", Value::Duration(Time::from_millis(100)),
                "`ns-default.tcl`: TCPSink/DelAck interval_ 100ms, where a study has `delayed_acks`"),
            preset("quick_acks", Value::Switch(false), "`tcp-sink.cc` has none"),
            preset("rto_floor", Value::Choice("timeout"), "`tcp.cc`, rtt_timeout(): the sum is minrto_ at the least"),
            preset("rto_max", Value::Duration(Time::from_secs(60)), "`ns-default.tcl`: maxrto_ 60"),
            DOUBLING_SYN,
            NO_OFFLOAD,
            NO_COMPRESSION,
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_preset_is_a_setting_whose_value_is_not_the_default() {
        for system in SYSTEMS {
            let different: Vec<_> =
                system.config().differences().map(|(setting, value)| (setting.name, value)).collect();
            let mut presets: Vec<_> = system.presets.iter().map(|preset| (preset.setting, preset.value)).collect();
            presets.sort_by_key(|(name, _)| SETTINGS.iter().position(|setting| setting.name == *name));
            assert_eq!(different, presets, "{}", system.name);
            assert!(system.presets.iter().all(|preset| !preset.source.is_empty()));
            assert!(!system.held.is_empty(), "{}", system.name);
        }
    }

    #[test]
    fn a_system_is_nearest_to_itself() {
        for system in SYSTEMS {
            let (nearest, but) = System::nearest(&system.config());
            assert_eq!((nearest.config(), but.len()), (system.config(), 0), "{}", system.name);
        }
        let names: BTreeSet<_> = SYSTEMS.iter().map(|system| system.name).collect();
        assert_eq!(names.len(), SYSTEMS.len());
    }
}
