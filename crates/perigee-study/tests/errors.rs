//! Each mistake in a study gets an error with its line and what to do about it.

use crate::common::{error, small_with, SMALL};

/// Replaces part of the small study and expects this error.
macro_rules! refuses {
    ($($test:ident: $old:literal => $new:expr, $error:literal;)+) => {$(
        #[test]
        fn $test() {
            assert_eq!(error(&small_with($old, $new), &[]), $error);
        }
    )+};
}

refuses! {
    text_that_is_not_toml: "seed = 7" => "seed = ", "s.toml:2: invalid string, expected `\"`, `'`; correct the TOML syntax here";
    an_unknown_key: "rounds = 2" => "ronds = 2", "s.toml:3: unknown key `ronds`; did you mean `rounds`?";
    an_unknown_key_of_bit_errors: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"bit-errors\", loss = \"1 %\", siz = \"1500 B\" }",
        "s.toml:24: unknown key `links.wire.loss.siz`; did you mean `size`?";
    a_size_of_bit_errors_without_a_unit: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"bit-errors\", loss = \"1 %\", size = 1500 }",
        "s.toml:24: `links.wire.loss.size`: `1500` has no unit; write \"1500 B\"";
    a_negative_share_of_bit_errors: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"bit-errors\", loss = \"-1 %\" }",
        "s.toml:24: `links.wire.loss.loss`: `-1 %` is negative; ratio starts at zero";
    bit_errors_of_no_size: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"bit-errors\", loss = \"1 %\", size = \"0 B\" }",
        "s.toml:24: `links.wire.loss.size` = 0 B is out of range; use a value from 1 B to 65.535 kB";
    counted_losses_of_nothing: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [] }",
        "s.toml:24: `links.wire.down.loss.drops` is empty; name packets: drops = [{ packet = 500 }]";
    counted_losses_that_name_no_packets: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [{ every = 20 }] }",
        "s.toml:24: `links.wire.down.loss.drops` has an entry that names no packets; give one of `packet`, `first` \
         and `from`";
    counted_losses_by_number_and_by_time: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [{ packet = 3, from = \"1 s\" }] }",
        "s.toml:24: `links.wire.down.loss.drops` has an entry that names packets by `packet` and by `from`; give one \
         of `packet`, `first` and `from`";
    counted_losses_that_end_before_they_begin: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [{ from = \"4 s\", to = \"3 s\" }] }",
        "s.toml:24: `links.wire.down.loss.drops.to` is before `from` = 4 s; raise it, or lower `from`";
    counted_losses_with_an_end_of_another_kind: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [{ first = 4, to = \"3 s\" }] }",
        "s.toml:24: `links.wire.down.loss.drops.to` has no `from`; add `from = ...`, or remove it";
    counted_losses_of_every_other_of_one: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = [{ packet = 4, every = 2 }] }",
        "s.toml:24: `links.wire.down.loss.drops.every` of one packet loses none; remove it, or give `first` and `last`";
    counted_losses_of_packet_zero: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"counted\", drops = { packet = 0 } }",
        "s.toml:24: `links.wire.loss.drops.packet` = 0 is out of range; use a value from 1 to 1000000000000";
    an_offered_rate_of_zero_for_a_size: "size = \"10 MB\"" => "size = \"10 MB\"\noffered = [{ rate = \"0 bit/s\" }]",
        "s.toml:37: flow `download`: `offered` changes, and the flow has a size; replace `size` by `duration`, or \
         offer one rate above zero";
    an_offered_rate_that_changes_for_a_size: "size = \"10 MB\"" =>
        "size = \"10 MB\"\noffered = [\"1 Mbit/s\", { at = \"3 s\", rate = \"2 Mbit/s\" }]",
        "s.toml:37: flow `download`: `offered` changes, and the flow has a size; replace `size` by `duration`, or \
         offer one rate above zero";
    an_offered_rate_that_begins_late: "size = \"10 MB\"" =>
        "duration = \"10 s\"\noffered = [{ at = \"3 s\", rate = \"2 Mbit/s\" }]",
        "s.toml:37: flow `download`: `offered` says nothing about the start of the flow; begin it with { at = \"0 \
         s\", rate = \"0 bit/s\" }, or another rate";
    offered_rates_out_of_order: "size = \"10 MB\"" =>
        "duration = \"10 s\"\noffered = [\"1 Mbit/s\", { at = \"3 s\", rate = \"2 Mbit/s\" }, { at = \"2 s\", rate = \
         \"3 Mbit/s\" }]",
        "s.toml:37: flow `download`: `offered` is not in order of time; sort it by `at`, each once";
    an_offered_rate_below_any_use: "size = \"10 MB\"" => "size = \"10 MB\"\noffered = \"1 bit/s\"",
        "s.toml:37: `flows.offered` = 1 bit/s is out of range; use 1 kbit/s or more";
    an_offered_rate_of_pings: "kind = \"ping\"" => "kind = \"ping\"\noffered = \"1 Mbit/s\"",
        "s.toml:42: flow `echo`: a `ping` flow has no `offered`; remove it, or set kind = \"bulk\"";
    a_word_for_states: "series = \"100 ms\"" => "series = \"100 ms\"\nstates = \"change\"",
        "s.toml:11: `measure.states` cannot be `change`; did you mean `changes`?";
    an_unknown_key_in_a_table: "series =" => "serie =", "s.toml:10: unknown key `measure.serie`; did you mean `series`?";
    an_unknown_tcp_setting: "delayed_acks = false" => "delayed_ack = false",
        "s.toml:18: unknown key `hosts.client.delayed_ack`; did you mean `delayed_acks`?";
    a_processing_time_without_a_unit: "delayed_acks = false" => "processing_time = 8",
        "s.toml:18: `hosts.client.processing_time`: `8` has no unit; write \"8 us\"";
    queue_management_as_the_kind_of_a_queue: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nqueue = { kind = \"fq-codel\", bytes = \"1 MB\" }",
        "s.toml:24: `links.wire.queue.kind` cannot be `fq-codel`; write aqm = { kind = \"fq-codel\" } in its place, in the \
         table `queue`";
    queue_management_as_a_queue: "rate = \"1 Gbit/s\"" => "rate = \"1 Gbit/s\"\nqueue = \"codel\"",
        "s.toml:24: `links.wire.queue`: `codel` does not start with a number; write { aqm = { kind = \"codel\" } }";
    queue_management_beside_a_queue: "rate = \"1 Gbit/s\"" => "rate = \"1 Gbit/s\"\naqm = \"codel\"",
        "s.toml:24: unknown key `links.aqm`; did you mean `queue.aqm`?";
    queue_management_without_a_table: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nqueue = { bytes = \"1 MB\", aqm = \"codel\" }",
        "s.toml:24: `links.wire.queue.aqm` is a string; write { kind = \"codel\" }";
    a_queue_without_anything: "rate = \"1 Gbit/s\"" => "rate = \"1 Gbit/s\"\nqueue = {}",
        "s.toml:24: `links.wire.queue` is empty; give it one of kind, bytes, bdp, round_trip, packets, time, aqm, or \
         leave it out";
    an_algorithm_that_varies_over_itself: "[\"reno\", \"cubic\"]" => "[\"reno\", \"cubic\", { name = \"reno\" }]",
        "s.toml:51: `vary.flows.download.cc` has \"reno\" twice; give it once";
    a_rate_that_varies_over_itself: "\"20 Mbit/s\", \"30 Mbit/s\"" => "\"20 Mbit/s\", \"0.01 Gbit/s\"",
        "s.toml:52: `vary.links.air.down.rate` has \"10 Mbit/s\" and \"0.01 Gbit/s\", which are equal; give it once";
    a_node_without_a_link: "\"middle\", \"client\"]" => "\"middle\", \"client\", \"spare\"]",
        "s.toml:4: node `spare` has no link; link it, or remove it";
    a_stagger_of_one_flow: "size = \"10 MB\"" => "size = \"10 MB\"\nstagger = \"1 s\"",
        "s.toml:37: `flows.stagger` is without effect without `count`; add count = 2, or remove it";
    ect1_without_ecn: "size = \"10 MB\"" => "size = \"10 MB\"\ntcp = { l4s = true }",
        "s.toml:37: flow `download`: `l4s` is without effect while ecn = false; add ecn = true";
    an_algorithm_that_every_point_replaces: "cc = \"reno\"" => "cc = \"cubik\"",
        "s.toml:37: `flows.download.cc`: there is no congestion control `cubik`; did you mean `cubic`?";
    a_processing_time_of_another_unit: "delayed_acks = false" => "processing_time = \"8 kB\"",
        "s.toml:18: `hosts.client.processing_time`: `kB` in `8 kB` is not a unit of time; use one of h, min, s, ms, \
         us, ns";
    a_negative_processing_time: "delayed_acks = false" => "processing_time = \"-8 us\"",
        "s.toml:18: `hosts.client.processing_time`: `-8 us` is negative; time starts at zero";
    a_processing_time_out_of_range: "delayed_acks = false" => "processing_time = \"8 s\"",
        "s.toml:18: `hosts.client.processing_time` = 8 s is out of range; use a value from 0 s to 100 ms";
    an_unknown_node_under_hosts: "[hosts.client]" => "[hosts.clint]", "s.toml:17: unknown key `hosts.clint`; did you mean `client`?";
    a_missing_key: "name = \"small\"" => "", "s.toml:1: `name` is missing; add `name = ...` here";
    a_missing_table: "[measure]" => "[mesure]", "s.toml:9: unknown key `mesure`; did you mean `measure`?";
    a_time_without_a_unit: "series = \"100 ms\"" => "series = 100",
        "s.toml:10: `measure.series`: `100` has no unit; write \"100 s\" or \"100 ms\"";
    a_time_in_the_unit_of_its_default: "rounds = 2" => "time_limit = 2", "s.toml:3: `time_limit`: `2` has no unit; write \"2 h\"";
    a_wrong_unit: "size = \"10 MB\"" => "size = \"10 Mbit/s\"",
        "s.toml:36: `flows.size`: `Mbit/s` in `10 Mbit/s` is not a unit of size; use one of GB, MB, kB, B, GiB, MiB, \
         KiB";
    a_wrong_type: "rounds = 2" => "rounds = \"two\"", "s.toml:3: `rounds` is a string; write a whole number without a unit";
    a_number_out_of_range: "rounds = 2" => "rounds = 0", "s.toml:3: `rounds` = 0 is out of range; use a value from 1 to 1000000";
    a_time_out_of_range: "series = \"100 ms\"" => "series = \"1 us\"",
        "s.toml:10: `measure.series` = 1 us is out of range; use a value from 1 ms to 3600 s";
    a_phase_that_is_no_quantity: "startup = \"1 MB\"" => "startup = \"soon\"",
        "s.toml:11: `measure.startup` is neither a size nor a time; write \"50 MB\", \"30 s\" or \"off\"";
    too_many_milestones: "every = \"1 MB\"" => "every = \"1 B\"",
        "s.toml:12: `measure.milestones` are 3000000 sizes; make `upto` 1 to 10000 times `every`";
    a_capture_of_no_byte: "[measure]" => "[measure]\ncapture = { startup = \"30 s\", from = \"1 GB\", upto = \"500 MB\" }",
        "s.toml:10: `measure.capture` has no byte from 1 GB up to 500 MB; make `upto` larger than `from`";
    buffers_that_fall: "\"128 KiB\", \"6 MiB\"" => "\"128 KiB\", \"6 KiB\"",
        "s.toml:16: `hosts.rmem` is not minimum, initial and maximum; write three sizes that do not fall, up to \
         1099511627.776 kB: [\"4 KiB\", \"128 KiB\", \"6 MiB\"]";
    an_unknown_node: "between = [\"server\", \"middle\"]" => "between = [\"server\", \"midle\"]",
        "s.toml:22: `links.between`: there is no node `midle`; did you mean `middle`?";
    an_unknown_node_of_a_flow: "to = \"client\"" => "to = \"clients\"",
        "s.toml:35: `flows.to`: there is no node `clients`; did you mean `client`?";
    an_unknown_node_of_a_capture: "pcap = [\"client\"]" => "pcap = [\"cliant\"]",
        "s.toml:13: `measure.pcap`: there is no node `cliant`; did you mean `client`?";
    an_unknown_profile: "profile = \"geo\"" => "profile = \"moon\"",
        "s.toml:29: the profile `moon` cannot be read: no such file; use one of geo, traced";
    a_misspelt_profile: "profile = \"geo\"" => "profile = \"goe\"",
        "s.toml:29: the profile `goe` cannot be read: no such file; did you mean `geo`?";
    an_unknown_algorithm: "[\"reno\", \"cubic\"]" => "[\"reno\",\n\"cubik\"]",
        "s.toml:52: `flows.cc`: there is no congestion control `cubik`; did you mean `cubic`?";
    an_unknown_parameter: "[\"reno\", \"cubic\"]" => "[{ name = \"cubic\", bta = \"70 %\" }]",
        "s.toml:51: `flows.cc`: `cubic` has no parameter `bta`; did you mean `beta`?";
    a_former_parameter: "[\"reno\", \"cubic\"]" => "[{ name = \"cubic\", hystart = \"off\" }]",
        "s.toml:51: `flows.cc`: `cubic` has no parameter `hystart`; write slow_start = \"classic\" for off, \
         slow_start = \"hystart\" for on";
    a_parameter_without_a_unit: "[\"reno\", \"cubic\"]" => "[{ name = \"hybla\", rtt0 = 25 }]",
        "s.toml:51: `flows.cc`: `rtt0` of `hybla`: `25` has no unit; write \"25 ms\"";
    a_congestion_control_without_a_name: "[\"reno\", \"cubic\"]" => "[{ rtt0 = \"25 ms\" }]",
        "s.toml:51: `flows.cc` names no congestion control; write \"cubic\" or { name = \"cubic\" }";
    a_node_twice: "\"middle\", \"client\"]" => "\"middle\", \"middle\"]", "s.toml:4: `nodes` has `middle` twice; remove one, or rename it";
    a_link_twice: "name = \"wire\"" => "name = \"air\"", "s.toml:27: `links.name` = `air` is there twice; rename one of them";
    a_flow_twice: "name = \"echo\"" => "name = \"download\"", "s.toml:40: `flows.name` = `download` is there twice; rename one of them";
    a_key_twice: "seed = 7" => "seed = 7\nseed = 8", "s.toml:3: duplicate key `seed` in document root; correct the TOML syntax here";
    a_name_with_a_dot: "name = \"wire\"" => "name = \"wi.re\"",
        "s.toml:21: `links.name` = `wi.re` is not a name; use 1 to 64 letters, digits, `-` or `_`";
    a_node_named_like_a_setting: "\"middle\"" => "\"mss\", \"middle\"",
        "s.toml:4: the node `mss` has the name of a TCP setting, so `[hosts]` could not tell them apart; rename it";
    a_flow_to_itself: "to = \"client\"" => "to = \"server\"",
        "s.toml:35: flow `download` leads from `server` to `server`; name another node";
    a_size_and_a_duration: "size = \"10 MB\"" => "size = \"10 MB\"\nduration = \"1 s\"",
        "s.toml:37: flow `download` has both a size and a duration; remove one of them";
    neither_size_nor_duration: "size = \"10 MB\"" => "",
        "s.toml:33: flow `download` has neither a size nor a duration; add size = \"1 GB\" or duration = \"60 s\"";
    a_key_of_another_kind: "repeat = 10" => "repeat = 10\nsize = \"1 MB\"",
        "s.toml:47: flow `echo`: a `ping` flow has no `size`; remove it, or set kind = \"bulk\"";
    an_opener_that_is_no_end: "size = \"10 MB\"" => "size = \"10 MB\"\nopened_by = \"server\"",
        "s.toml:37: `flows.opened_by` cannot be `server`; did you mean `sender`?";
    an_opener_of_a_ping: "repeat = 10" => "repeat = 10\nopened_by = \"sender\"",
        "s.toml:47: flow `echo`: a `ping` flow has no `opened_by`; remove it, or set kind = \"bulk\"";
    a_population_of_nobody: "size = \"10 MB\"" => "kind = \"web\"\nconnections_per_s = 0\nduration = \"1 s\"",
        "s.toml:37: `flows.connections_per_s` = 0 is out of range; use a value from 0.01 to 100000";
    a_population_that_shrinks: "size = \"10 MB\"" => "kind = \"web\"\nconnections_per_s = -3\nduration = \"1 s\"",
        "s.toml:37: `flows.connections_per_s` = -3 is out of range; use a value from 0.01 to 100000";
    a_population_of_too_many: "size = \"10 MB\"" => "kind = \"web\"\nconnections_per_s = 1000\nduration = \"5 h\"",
        "s.toml:38: flow `download` opens 18000000 connections; shorten it, down to 10000000 connections";
    an_access_delay_that_falls: "size = \"10 MB\"" =>
        "kind = \"web\"\nconnections_per_s = 1\nduration = \"1 s\"\naccess_least = \"9 ms\"\naccess_most = \"5 ms\"",
        "s.toml:40: flow `download`: `access_most` = 5 ms is below access_least = 9 ms; raise it, or lower \
         access_least";
    no_sizes_of_responses: "size = \"10 MB\"" => "kind = \"transactions\"\nresponses = []",
        "s.toml:37: `flows.responses` is empty; write one size or more: [\"1 kB\"]";
    a_talk_spurt_of_nothing: "size = \"10 MB\"" => "kind = \"voice\"\nduration = \"1 s\"\non = \"0 s\"",
        "s.toml:38: `flows.on` = 0 s is out of range; use a value from 1 ms to 2592000 s";
    a_ladder_that_falls: "size = \"10 MB\"" =>
        "kind = \"video\"\nduration = \"1 min\"\nladder = [\"3 Mbit/s\", \"1 Mbit/s\"]",
        "s.toml:38: `flows.ladder` is not a list of rates that rise; write 1 to 64 rates, the lowest first: [\"1 \
         Mbit/s\", \"3 Mbit/s\"]";
    more_rounds_than_objects: "size = \"10 MB\"" =>
        "kind = \"pages\"\nduration = \"1 min\"\nresponses = [\"1 kB\", \"1 kB\", \"1 kB\"]\nrounds = 2",
        "s.toml:39: flow `download`: pages of 3 objects, 3 kB have no objects for `rounds` = 2; lower it to 1, or \
         load pages of more objects";
    a_frame_of_no_byte: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"frames\", loss = \"1 %\", frame = \"0 B\" }",
        "s.toml:24: `links.wire.loss.frame` = 0 B is out of range; use a value from 16 B to 1 MB";
    a_frame_without_a_unit: "rate = \"1 Gbit/s\"" =>
        "rate = \"1 Gbit/s\"\nloss = { kind = \"frames\", loss = \"1 %\", frame = 6000 }",
        "s.toml:24: `links.wire.loss.frame`: `6000` has no unit; write \"6000 B\"";
    a_buffer_of_one_segment: "size = \"10 MB\"" => "kind = \"video\"\nduration = \"1 min\"\nbuffer = \"6 s\"",
        "s.toml:38: flow `download`: a buffer of 6 s holds less than two segments of 4 s; set buffer = \"8 s\" or more";
    a_start_that_the_buffer_cannot_hold: "size = \"10 MB\"" =>
        "kind = \"video\"\nduration = \"1 min\"\nbuffer = \"9 s\"\nstartup = \"10 s\"",
        "s.toml:39: flow `download`: `startup` = 10 s is above buffer = 9 s; lower it, or raise buffer";
    an_algorithm_that_is_none: "size = \"10 MB\"" => "kind = \"video\"\nduration = \"1 min\"\nalgorithm = \"bolt\"",
        "s.toml:38: `flows.algorithm` cannot be `bolt`; did you mean `bola`?";
    a_video_at_a_rate: "size = \"10 MB\"" => "kind = \"video\"\nduration = \"1 min\"\nrate = \"1 Mbit/s\"",
        "s.toml:38: flow `download`: a `video` flow has no `rate`; remove it, or set kind = \"udp\" or \"call\"";
    frames_without_room: "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"100 ms\"\n\
        packet = \"64 B\"\nrepeat = 10" =>
        "kind = \"call\"\nfrom = \"client\"\nto = \"server\"\nrate = \"5 kbit/s\"\nduration = \"1 s\"",
        "s.toml:44: flow `echo`: frames of 20 B have no room for the headers of their packets; raise it, or lower \
         frames_per_s";
    frames_of_too_many_packets: "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"100 ms\"\n\
        packet = \"64 B\"\nrepeat = 10" =>
        "kind = \"call\"\nfrom = \"client\"\nto = \"server\"\nrate = \"1 Gbit/s\"\nduration = \"1 s\"",
        "s.toml:44: flow `echo`: frames of 4166666 B have 3473 packets; lower it, or raise packet, down to 1000 \
         packets";
    a_call_of_too_many_frames: "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"100 ms\"\n\
        packet = \"64 B\"\nrepeat = 10" =>
        "kind = \"call\"\nfrom = \"client\"\nto = \"server\"\nrate = \"1 Mbit/s\"\nframes_per_s = 60\n\
         duration = \"720 h\"",
        "s.toml:46: flow `echo` has 155520000 frames of 2 packets; shorten it, down to 100 million frames of 40 \
         packets";
    an_unknown_kind: "kind = \"ping\"" => "kind = \"pings\"", "s.toml:41: `flows.kind` cannot be `pings`; did you mean `ping`?";
    a_link_key_that_is_none: "rate = \"1 Gbit/s\"" => "rat = \"1 Gbit/s\"", "s.toml:23: unknown key `links.rat`; did you mean `rate`?";
    a_link_process_that_is_wrong: "rate = \"1 Gbit/s\"" => "rate = \"1 Gb\"",
        "s.toml:23: `links.wire.rate`: `Gb` in `1 Gb` is not a unit of rate; did you mean `1 Gbit/s`?";
    a_link_without_a_rate: "rate = \"1 Gbit/s\"" => "", "s.toml:20: `links.wire.down.rate` is missing; add `rate = ...` here";
    three_ends_of_a_link: "between = [\"server\", \"middle\"]" => "between = [\"server\", \"middle\", \"client\"]",
        "s.toml:22: `links.between` of `wire` has 3 nodes; write the two nodes: between = [\"a\", \"b\"]";
    an_input_that_is_not_declared: "rate = \"1 Gbit/s\"" => "rate = { trace = \"${inputs.bx}\" }",
        "s.toml:23: there is no `inputs.bx`; write \"${inputs.NAME}\"; did you mean `bw`?";
    an_input_that_is_not_given: "rate = \"1 Gbit/s\"" => "rate = { trace = \"${inputs.bw}\" }",
        "s.toml:23: not given: `bw` (a trace of the capacity); pass --set inputs.bw=PATH";
    a_recording_that_is_not_there: "rate = \"1 Gbit/s\"" => "rate = { trace = \"nothing.txt\" }",
        "s.toml:23: cannot read `nothing.txt`: no such file; check the path";
    an_empty_vary: "[\"reno\", \"cubic\"]" => "[]", "s.toml:51: `vary.flows.download.cc` is empty; remove it";
    a_vary_path_without_quotes: "\"flows.download.cc\" = " => "flows.download.cc = ",
        "s.toml:51: `vary.flows` is a table; write the whole key path in quotes: \"flow.cc\" = [...]";
    a_vary_path_that_is_none: "\"flows.download.cc\" = " => "\"flows.download.c\" = ",
        "s.toml:51: `flows.download.c`: there is no key `c` in flows; did you mean `cc`?";
    a_vary_path_of_no_flow: "\"flows.download.cc\" = " => "\"flows.upload.cc\" = ",
        "s.toml:51: `flows.upload.cc`: there is no `upload` among the flows; use one of download, echo";
    a_seed_that_varies: "\"flows.download.cc\" = [\"reno\", \"cubic\"]" => "seed = [1, 2]",
        "s.toml:51: `seed` cannot vary; each round has its own seed already: raise `rounds` instead";
    a_path_that_varies_twice: "[vary]" =>
        "[vary]\nlinked = [{ \"flow.cc\" = \"reno\" }, { \"flow.cc\" = \"cubic\" }]",
        "s.toml:52: `flows.download.cc` varies under `linked` and `flows.download.cc`; keep one of them";
    a_reduced_path_that_is_none: "rounds = 1," => "round = 1,",
        "s.toml:55: `round` cannot be set; use one of seed, rounds, independent, time_limit, carriage, kernel_hosts, flow.KEY \
         (every flow), flows.NAME.KEY, links.NAME.KEY, proxy.KEY (every proxy), proxies.NAME.KEY, \
         proxies.NAME.sides.LINK.KEY, route.KEY (every route that holds at times), hosts.KEY, hosts.NODE.KEY, \
         measure.KEY, live.KEY, inputs.NAME";
    more_runs_than_a_plan_may_have: "rounds = 2" => "rounds = 1000000",
        "s.toml:3: 1000000 rounds of 6 points are too many runs; lower `rounds`, down to 1000000 runs";
    more_flows_than_a_run_may_have: "size = \"10 MB\"" => "size = \"10 MB\"\ncount = 10001",
        "s.toml:37: `flows.count` = 10001 is out of range; use a value from 0 to 10000";
    a_server_of_no_node: "[measure]" => "[live]\nservers = { servr = \"host\" }\n[measure]",
        "s.toml:10: `live.servers`: there is no node `servr`; did you mean `server`?";
    a_server_that_is_none: "[measure]" => "[live]\nservers = { server = \"host:\" }\n[measure]",
        "s.toml:10: `live.servers.server`: `host:` is no host and port; write \"HOST\", \"HOST:5201\" or \
         \"[ADDRESS]:5201\"";
    a_host_of_no_node: "[measure]" => "[live]\nhere = \"clint\"\n[measure]",
        "s.toml:10: `live.here`: there is no node `clint`; did you mean `client`?";
    a_schedule_that_varies: "\"flows.download.cc\" = [\"reno\", \"cubic\"]" => "\"live.pause\" = [\"1 s\", \"2 s\"]",
        "s.toml:51: `live` cannot vary; it is how the study is carried out, not what";
    timeouts_that_cross: "delayed_acks = false" => "rto_min = \"60 s\"\nrto_max = \"1 s\"",
        "s.toml:18: `hosts.client.rto_min` = 60 s is above rto_max = 1 s; lower it, or raise rto_max";
}

#[test]
fn an_empty_file_says_what_is_missing() {
    assert_eq!(error("", &[]), "s.toml:1: `name` is missing; add `name = ...` here");
}

#[test]
fn settings_are_refused_with_the_setting_as_their_place() {
    let refused = |setting: &str| error(SMALL, &[setting]);
    assert_eq!(refused("flow.cc"), "--set flow.cc: the key or `=` is missing; write --set flow.cc=cubic");
    assert_eq!(
        refused("flows.download.cc=cubik"),
        "--set flows.download.cc=cubik: `flows.cc`: there is no congestion control `cubik`; did you mean `cubic`?"
    );
    assert_eq!(
        refused("flow.siz=1 MB"),
        "--set flow.siz=1 MB: `flows.download.siz`: there is no key `siz` in flows; did you mean `size`?"
    );
    assert_eq!(
        refused("flows.download.size=7"),
        "--set flows.download.size=7: `flows.size`: `7` has no unit; write \"7 MB\""
    );
    assert_eq!(
        refused("links.air.down.rate=fast"),
        "--set links.air.down.rate=fast: `links.air.down.rate`: `fast` does not start with a number; write \"144 Mbit/s\""
    );
    assert_eq!(
        refused("links.air.down.rate.sd=1 Mbit/s"),
        "--set links.air.down.rate.sd=1 Mbit/s: `links.air.down.rate.sd` varies in the study (s.toml:52); set all that \
         `vary` has under `links.air.down.rate`"
    );
    assert_eq!(
        refused("links.sky.down.rate=1 Mbit/s"),
        "--set links.sky.down.rate=1 Mbit/s: `links.sky.down.rate`: there is no `sky` among the links; use one of wire, air"
    );
    assert_eq!(refused("inputs.bv=a"), "--set inputs.bv=a: `inputs.bv`: there is no such input; did you mean `bw`?");
    assert_eq!(
        refused("nodes=a"),
        "--set nodes=a: `nodes` cannot be set; use one of seed, rounds, independent, time_limit, carriage, kernel_hosts, \
         flow.KEY (every flow), flows.NAME.KEY, links.NAME.KEY, proxy.KEY (every proxy), proxies.NAME.KEY, proxies.NAME.sides.LINK.KEY, \
         route.KEY (every route that holds at times), hosts.KEY, hosts.NODE.KEY, measure.KEY, live.KEY, inputs.NAME"
    );
    for (written, meant) in [
        ("flow.download.cc=cubic", "flows.download.cc"),
        ("flow.downlod.size=1 MB", "flows.download.size"),
        ("flow.download.cc.alpha=1", "flows.download.cc.alpha"),
        ("download.size=1 MB", "flows.download.size"),
        ("air.down.loss=1 %", "links.air.down.loss"),
        ("host.rmem=1 MB", "hosts.rmem"),
    ] {
        let key = written.split_once('=').expect("a setting").0;
        assert_eq!(refused(written), format!("--set {written}: `{key}` cannot be set; did you mean `{meant}`?"));
    }
    assert_eq!(
        refused("flow.size.x=1 MB"),
        "--set flow.size.x=1 MB: `flows.download.size.x` goes too deep: `size` is one value; set `size` itself"
    );
    assert_eq!(
        refused("hosts.clint.rack=false"),
        "--set hosts.clint.rack=false: `hosts.clint.rack`: there is neither a TCP setting nor a node `clint`; did you \
         mean `client`?"
    );
    assert_eq!(refused("flow.count=0"), "s.toml:32: there is no flow; add a [[flows]] table, with a `count` above 0");
}

#[test]
fn a_node_that_no_link_reaches_is_named() {
    let text = small_with("\"client\"]", "\"client\", \"isle\"]").replace("to = \"server\"", "to = \"isle\"");
    let expected = "s.toml:43: flow `echo`: the way from `client` to `isle` has no link onward from `client`; \
                    link `client` to the others";
    assert_eq!(error(&text, &[]), expected);
}

#[test]
fn routes_that_lead_in_circles_are_named() {
    let back = "[[routes]]\nnode = \"middle\"\nto = \"client\"\nvia = \"wire\"\n[vary]";
    let expected = "s.toml:35: flow `download`: the way from `server` to `client` goes in circles through `middle`; \
                    correct the [[routes]] of `middle`";
    assert_eq!(error(&small_with("[vary]", back), &[]), expected);
}

#[test]
fn routes_that_hold_at_times_have_conditions_that_can_be_met() {
    let route = |lines: &str| {
        let table = format!("[[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\n{lines}\n");
        error(&small_with("[vary]", &format!("{table}[vary]")), &[])
    };
    assert_eq!(
        route("start = \"10 s\"\nend = \"4 s\""),
        "s.toml:55: the route ends at 4 s, and begins at 10 s; write a later `end`"
    );
    assert_eq!(
        route("while_dark = \"wir\""),
        "s.toml:54: `routes.while_dark`: there is no link `wir`; did you mean `wire`?"
    );
    assert_eq!(
        route("restore = \"4 s\""),
        "s.toml:54: `routes.restore` is of a route with `while_dark`; add while_dark = \"LINK\", or remove it"
    );
    assert_eq!(
        route("waiting = \"moved\""),
        "s.toml:54: `routes.waiting` is of a route that changes; add `start`, `end` or `while_dark`, or remove it"
    );
    assert_eq!(
        route("start = \"1 s\"\nwaiting = \"move\""),
        "s.toml:55: `routes.waiting` cannot be `move`; did you mean `moved`?"
    );
    let back = "[[routes]]\nnode = \"middle\"\nto = \"client\"\nvia = \"wire\"\nstart = \"1 h\"\n[vary]";
    assert!(error(&small_with("[vary]", back), &[]).contains("goes in circles through `middle`"), "also an hour later");
    let seconds = (1..8).map(|s| {
        let condition = format!("while_dark = \"wire\"\ndetect = \"{s} s\"\n");
        format!("[[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\n{condition}")
    });
    let many = small_with("[vary]", &format!("{}[vary]", seconds.collect::<String>()));
    assert!(error(&many, &[]).contains("routes wait for 7 different conditions of links; use up to 6"));
}

#[test]
fn queues_that_cannot_give_packets_up_are_refused_where_a_route_takes_them() {
    let route =
        "[[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\nstart = \"1 s\"\nwaiting = \"lost\"\n[vary]";
    let with = |queue: &str| error(&small_with("[vary]", route), &[&format!("links.wire.queue={queue}")]);
    let expected = |why: &str| {
        format!(
            "s.toml:55: packets that wait for `wire.down` cannot be moved or lost: {why}; let its queue be drop-tail with \
             a limit in bytes or packets, drop-front, or CoDel; or use waiting = \"kept\""
        )
    };
    assert_eq!(with("{ time = \"10 ms\" }"), expected("its queue has a limit in time"));
    assert_eq!(with("{ kind = \"priority\", bytes = \"9 kB\" }"), expected("it has two classes"));
    assert_eq!(
        with("{ bytes = \"9 kB\", aqm = { kind = \"pie\" } }"),
        expected("its queue management decides on arrival")
    );
    assert_eq!(with("{ bytes = \"9 kB\", aqm = { kind = \"fq-codel\" } }"), expected("it has several queues"));
}

#[test]
fn routes_that_make_no_sense_are_refused() {
    let route = |node: &str, to: &str, via: &str| {
        let table = format!("[[routes]]\nnode = \"{node}\"\nto = \"{to}\"\nvia = \"{via}\"\n");
        error(&small_with("[vary]", &format!("{table}[vary]")), &[])
    };
    assert_eq!(
        route("server", "client", "air"),
        "s.toml:53: `routes.via`: link `air` does not touch `server`; name a link of that node"
    );
    assert_eq!(
        route("server", "client", "wir"),
        "s.toml:53: `routes.via`: there is no link `wir`; did you mean `wire`?"
    );
    assert_eq!(
        route("server", "server", "wire"),
        "s.toml:52: a route from `server` to `server` leads nowhere; remove it"
    );
}

#[test]
fn tables_that_would_outgrow_memory_are_refused() {
    let text = small_with("seed = 7", "seed = 7\ntime_limit = \"720 h\"").replace("100 ms\"\nstart", "1 ms\"\nstart");
    let expected = "s.toml:3: 6 flows and link directions every 1 ms over 2592000 s are 15552000000 rows; raise \
                    measure.series and measure.goodput_bin or lower time_limit, down to 50000000 rows";
    assert_eq!(error(&text, &[]), expected);
    let rates: Vec<_> = (1..=250).map(|mbps| format!("\"{mbps} Mbit/s\"")).collect();
    let many = format!("rate = [{}]", rates.join(", "));
    let text = small_with(
        "\"links.air.down.rate\" = [\"10 Mbit/s\", \"20 Mbit/s\", \"30 Mbit/s\"]",
        &format!(
            "\"links.air.down.{}\n\"links.air.up.{}",
            many.replacen("rate", "rate\"", 1),
            many.replacen("rate", "rate\"", 1)
        ),
    );
    let expected = "s.toml:53: `vary` makes 125000 points; shorten the lists, down to 100000 points";
    assert_eq!(error(&text, &[]), expected);
}

#[test]
fn mistakes_in_a_profile_stand_in_the_profile() {
    let refused = |old: &str, new: &str| {
        let profile = crate::common::GEO.replacen(old, new, 1);
        let mut load = |name: &str| match name {
            "profiles/geo.toml" => Ok(profile.clone().into()),
            other => crate::common::load(other),
        };
        let study = perigee_study::Study::parse(SMALL, "s.toml").unwrap();
        study.plan(&perigee_study::Overrides::default(), &mut load).unwrap_err().to_string()
    };
    assert_eq!(
        refused("delay = \"300 ms\"", "delay = \"300\""),
        "profiles/geo.toml:6: `links.air.down.delay`: `300` has no unit; write \"300 ms\""
    );
    assert_eq!(
        refused("queue =", "queu ="),
        "profiles/geo.toml:7: unknown key `links.air.down.queu`; did you mean `queue`?"
    );
    assert_eq!(refused("source =", "sauce ="), "profiles/geo.toml:3: unknown key `sauce`; did you mean `source`?");
    assert_eq!(refused("[up]", "[upp]"), "profiles/geo.toml:8: unknown key `upp`; did you mean `up`?");
}

#[test]
fn more_tables_or_axes_than_can_be_read_in_good_time_are_refused() {
    let flows = (0..1001).map(|n| format!("[[flows]]\nname = \"f{n}\"\n")).collect::<Vec<_>>().concat();
    let expected =
        "s.toml:32: 1003 tables of `flows` are too many; use up to 1000; many like flows are one with a `count`";
    assert_eq!(error(&small_with("[vary]", &format!("{flows}[vary]")), &[]), expected);
    let axes = (0..101).map(|n| format!("\"flow.k{n}\" = [1]\n")).collect::<Vec<_>>().concat();
    let text = small_with("[reduced]", &format!("{axes}[reduced]"));
    assert_eq!(error(&text, &[]), "s.toml:50: `vary` has 103 keys; use up to 100, or `linked`");
    let experiments = (0..1001).map(|n| format!("[[experiments]]\nname = \"e{n}\"\n")).collect::<Vec<_>>().concat();
    let text = small_with("[reduced]", &format!("{experiments}[reduced]"));
    assert_eq!(error(&text, &[]), "s.toml:54: 1001 tables of `experiments` are too many; use up to 1000");
    let drops = (1..=10_000).map(|n| format!("{{ packet = {n} }}")).collect::<Vec<_>>().join(", ");
    let loss = format!("delay = \"1 ms\"\ndown.loss = {{ kind = \"counted\", drops = [{drops}] }}");
    let rates = (1..=100).map(|n| format!("\"{n} Mbit/s\"")).collect::<Vec<_>>().join(", ");
    let up = format!("[vary]\n\"links.air.up.rate\" = [{rates}]\n\"links.wire.rate\" = [{rates}]");
    let text = small_with("delay = \"1 ms\"", &loss).replacen("[vary]", &up, 1);
    assert!(error(&text, &[]).contains("`vary` makes 60000 points; shorten the lists, down to 49"));
    let deep = small_with("\"flows.download.cc\" =", &format!("\"links.air{}\" =", ".a".repeat(20)));
    assert!(error(&deep, &[]).contains("has 22 parts; use up to 12"));
}

#[test]
fn independent_errors_of_a_file_are_told_together() {
    let text = SMALL
        .replace("delayed_acks = false", "delayed_ack = false")
        .replace("delay = \"1 ms\"", "delay = 1")
        .replace("packet = \"64 B\"", "packet = \"64 Q\"");
    assert_eq!(
        all_errors(&text),
        [
            "s.toml:18: unknown key `hosts.client.delayed_ack`; did you mean `delayed_acks`?",
            "s.toml:24: `links.wire.delay`: `1` has no unit; write \"1 ms\"",
            "s.toml:45: `flows.echo.packet`: `Q` in `64 Q` is not a unit of size; use one of GB, MB, kB, B, GiB, MiB, KiB",
        ]
    );
}

#[test]
fn names_that_mean_nothing_and_wrong_values_of_a_list_are_told_together_with_the_rest() {
    let text = SMALL
        .replace("delay = \"1 ms\"", "delay = 1")
        .replace("[hosts]\n", "[hosts]\nrmen = 1\n")
        .replacen("to = \"client\"", "to = \"clint\"", 1)
        .replace("\"flows.download.cc\" =", "\"flows.downlod.size\" = [\"1 MB\"]\n\"flows.download.cc\" =");
    let told = all_errors(&text);
    let has = |part: &str| told.iter().any(|one| one.contains(part));
    assert!(has("`links.wire.delay`: `1` has no unit"), "{told:?}");
    assert!(has("unknown key `hosts.rmen`; did you mean `rmem`?"), "{told:?}");
    assert!(has("there is no node `clint`; did you mean `client`?"), "{told:?}");
    assert!(has("did you mean `flows.download.size`") || has("did you mean `download`"), "{told:?}");
    let text = small_with("\"flows.download.cc\" = [", "\"flows.download.cc\" = [\"cubik\", \"renoo\", ");
    let told = all_errors(&text);
    assert!(told.len() == 2 && told[0].contains("`cubik`") && told[1].contains("`renoo`"), "{told:?}");
}

#[test]
fn wrong_values_for_links_and_reduced_settings_are_told_together_with_the_rest() {
    let text = SMALL
        .replace("delay = \"1 ms\"", "delay = 1")
        .replace(
            "\"20 Mbit/s\", \"30 Mbit/s\"]",
            "\"20 Mbs\", { kind = \"slot\" }]\n\"links.wire.up.loss\" = [\"1 %\", 2]",
        )
        .replace("{ rounds = 1,", "{ ronds = 1, \"measure.series\" = 2, \"vary.links.air.up.delay\" = [\"1 Q\"],");
    let told = all_errors(&text);
    let mut lines: Vec<_> = told.iter().map(|one| one.split(':').nth(1).unwrap_or_default()).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["24", "52", "52", "53", "56", "56", "56"], "{told:#?}");
}

fn all_errors(text: &str) -> Vec<String> {
    let first = perigee_study::Study::parse(text, "s.toml").expect_err("it is wrong");
    std::iter::once(&first).chain(&first.more).map(ToString::to_string).collect()
}
