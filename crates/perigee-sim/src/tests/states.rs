//! The table `states`, and the scripted causes of what it shows: losses by number, and an application's rate.

use perigee_results::{States, Table, Tables, Values};

use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

const LINK: &str = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nqueue = { bdp = 2 }";

/// A bulk flow from `a` to `b`, with this `measure` and these lines.
fn study(link: &str, measure: &str, flow: &str) -> String {
    through_router(
        link,
        &format!(
            "[measure]\n{measure}\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nopened_by = \"sender\"\n{flow}\n"
        ),
    )
}

fn names(states: &States, column: &str) -> Vec<String> {
    match states.further().into_iter().find(|(name, ..)| *name == column) {
        Some((_, _, Values::OptionText(cells))) => {
            cells.iter().map(|cell| cell.as_deref().unwrap_or_default().to_owned()).collect()
        }
        other => panic!("{column}: {other:?}"),
    }
}

fn numbers(states: &States, column: &str) -> Vec<Option<u64>> {
    match states.further().into_iter().find(|(name, ..)| *name == column) {
        Some((_, _, Values::OptionU64(cells))) => cells.to_vec(),
        other => panic!("{column}: {other:?}"),
    }
}

/// The cells of a column of the table itself.
fn fixed<'a>(states: &'a States, column: &str) -> Values<'a> {
    let place = states.columns().iter().position(|one| one.name == column).expect("a column of the table");
    states.values(place).expect("it has cells")
}

fn times(states: &States) -> Vec<f64> {
    match fixed(states, "t_s") {
        Values::F64(cells) => cells.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn without_states(tables: &Tables) -> Tables {
    Tables { states: States::default(), ..tables.clone() }
}

#[test]
fn no_watched_value_can_have_the_name_of_a_column() {
    let names: Vec<_> = States::default().columns().iter().map(|column| column.name).collect();
    assert_eq!(names, perigee_cc::STATE_COLUMNS);
}

#[test]
fn changes_of_bbr3_begin_as_the_draft_says_and_no_state_follows_itself() {
    let tables = result(&study(LINK, "states = \"changes\"", "cc = \"bbr3\"\nduration = \"8 s\"")).tables;
    let states = names(&tables.states, "state");
    // The ACK that ends DRAIN begins PROBE_DOWN, and ends it, too.
    assert_eq!(states[..5], ["startup", "drain", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up"]);
    assert!(states.windows(2).all(|pair| pair[0] != pair[1]), "{states:?}");
    let gains = numbers(&tables.states, "pacing_gain_percent");
    assert_eq!(gains[..5], [277, 50, 100, 100, 125].map(Some));
    let bounds = numbers(&tables.states, "inflight_shortterm_packets");
    assert_eq!(bounds[0], None, "STARTUP has no bound");
    // Over 20 Mbit/s, the payload of packets of 1500 bytes.
    let bandwidth = numbers(&tables.states, "max_bw_bps")[2].expect("it is known");
    assert!((19_000_000..20_000_000 * 1448 / 1500 + 100_000).contains(&bandwidth), "{bandwidth}");
}

#[test]
fn a_table_of_states_changes_no_other_one_in_any_carriage() {
    let flow = "cc = \"bbr3\"\nduration = \"4 s\"";
    let tables = |states: &str, carriage: Carriage| {
        let run = plan(&study(LINK, &format!("states = \"{states}\""), flow));
        carry_out(&run, carriage).expect("the run succeeds").tables
    };
    let off = tables("off", Carriage::default());
    assert!(off.states.is_empty());
    for states in ["changes", "every"] {
        let on = tables(states, Carriage::default());
        assert!(!on.states.is_empty());
        assert_eq!(without_states(&on), off, "{states}");
        assert_eq!(on, tables(states, Carriage::PLAIN), "{states}");
    }
}

#[test]
fn every_acknowledgement_is_a_row_with_its_round_trip() {
    let measure = "states = \"every\"\nevents = true";
    let tables = result(&study(LINK, measure, "cc = \"bbr3\"\nsize = \"1 MB\"")).tables;
    let acks = |event: &std::sync::Arc<str>| &**event == "ack";
    let rows = tables.events.event.iter().filter(|event| acks(event)).count();
    assert_eq!(tables.states.len(), rows);
    let of_events = tables.events.event.iter().zip(&tables.events.rtt_ms).filter(|(event, _)| acks(event));
    let rtts: Vec<_> = of_events.map(|(_, rtt)| *rtt).collect();
    assert_eq!(fixed(&tables.states, "rtt_ms"), Values::OptionF64(&rtts));
}

#[test]
fn an_algorithm_that_shows_no_state_has_the_one_of_tcp() {
    let link =
        "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\ndown.loss = { kind = \"counted\", drops = [{ packet = 600 }] }";
    let tables = result(&study(link, "states = \"changes\"", "cc = \"reno\"\nsize = \"2 MB\"")).tables;
    let Values::Text(states) = fixed(&tables.states, "ca_state") else { panic!("it is text") };
    let states: Vec<_> = states.iter().map(|state| &**state).collect();
    assert_eq!(states[0], "open");
    assert!(states.contains(&"recovery") && states.last() == Some(&"open"), "{states:?}");
    assert!(tables.states.further().is_empty(), "reno lets nothing be watched");
}

#[test]
fn losses_by_number_are_those_of_the_script() {
    let lost = |drops: &str| {
        let link = format!(
            "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\ndown.loss = {{ kind = \"counted\", least = \"200 B\", drops = {drops} }}"
        );
        let tables = result(&study(&link, "events = true", "cc = \"reno\"\nsize = \"2 MB\"")).tables;
        let events = &tables.events;
        let again = events.event.iter().zip(&events.sequence).filter(|(event, _)| &***event == "retransmitted");
        let mut again: Vec<_> = again.map(|(_, sequence)| sequence / 1448 + 1).collect();
        again.sort_unstable();
        again
    };
    assert_eq!(lost("[{ packet = 500 }]"), [500]);
    assert_eq!(lost("[{ first = 500, last = 540, every = 20 }, { packet = 300 }]"), [300, 519, 539]);
    // 2 MB are 1382 packets.
    assert_eq!(lost("[{ packet = 1383 }]"), [0; 0]);
    assert_eq!(lost("[{ from = \"100 s\" }]"), [0; 0]);
}

#[test]
fn losses_between_two_times_hit_every_so_many_packets_in_any_carriage() {
    let link = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\n\
                down.loss = { kind = \"counted\", drops = { from = \"3 s\", to = \"4 s\", every = 20 } }";
    let run = plan(&study(link, "series = \"1 s\"", "cc = \"bbr3\"\nduration = \"6 s\""));
    let tables = carry_out(&run, Carriage::default()).expect("the run succeeds").tables;
    assert_eq!(tables, carry_out(&run, Carriage::PLAIN).expect("the run succeeds").tables);
    let links = &tables.links;
    let down: Vec<_> = (0..links.link.len()).filter(|row| &*links.link[*row] == "bottleneck.down").collect();
    for row in down {
        let (t, lost, offered) = (links.t_s[row], links.lost_packets[row], links.offered_packets[row]);
        // A packet belongs to the second in which it arrived at the queue, which holds up to 80 ms, and leaves up to 7 of them later.
        let expected = if (3.5..4.5).contains(&t) { offered / 20 - 7..=offered / 20 + 1 } else { 0..=7 };
        assert!(expected.contains(&lost), "{lost} of {offered} lost in the second before {t}");
    }
    let lost: u64 = links.lost_packets.iter().sum();
    assert!((60..=84).contains(&lost), "{lost}: 20 Mbit/s are 1667 packets, and BBR sends less where it loses some");
}

#[test]
fn an_application_offers_its_rate_falls_silent_and_goes_on() {
    let offered = "offered = [{ rate = \"4 Mbit/s\" }, { at = \"3 s\", rate = \"0 bit/s\" }, { at = \"5 s\", rate = \"unlimited\" }, \
                   { at = \"7 s\", rate = \"0 bit/s\" }]";
    let flow = format!("cc = \"bbr3\"\nduration = \"9 s\"\n{offered}");
    let run = plan(&study(LINK, "series = \"1 s\"\nstates = \"every\"", &flow));
    let tables = carry_out(&run, Carriage::default()).expect("the run succeeds").tables;
    let goodput = &tables.series.goodput_mbps;
    for (second, mbps) in goodput.iter().enumerate() {
        let expected = match second {
            // The handshake takes 42 ms.
            0 => 3.6..4.01,
            1 | 2 => 3.97..4.03,
            3 | 4 | 8 => 0.0..0.3,
            // The idle flow restarts at the bandwidth it knew, and STARTUP goes on.
            5 => 8.0..19.4,
            6 => 18.0..19.4,
            // The send buffer empties, which has room for three windows.
            _ => 1.0..16.0,
        };
        assert!(expected.contains(mbps), "{mbps} Mbit/s in second {second}: {goodput:?}");
    }
    let Values::Bool(limited) = fixed(&tables.states, "app_limited") else { panic!("it is a switch") };
    let at = times(&tables.states);
    let share = |from: f64, to: f64| {
        let within: Vec<_> =
            at.iter().zip(limited).filter(|(t, _)| (from..to).contains(*t)).map(|(_, is)| *is).collect();
        within.iter().filter(|is| **is).count() as f64 / within.len() as f64
    };
    assert!(share(1.0, 3.0) > 0.95 && share(6.2, 7.0) < 0.05, "{} {}", share(1.0, 3.0), share(6.2, 7.0));
    let restarts = numbers(&tables.states, "idle_restart");
    assert!(at.iter().zip(restarts).all(|(t, restart)| restart != Some(1) || *t > 5.0));
}

#[test]
fn an_application_with_a_rate_and_a_size_completes_when_it_has_offered_all() {
    let tables = result(&study(LINK, "", "cc = \"cubic\"\nsize = \"1 MB\"\noffered = \"2 Mbit/s\"")).tables;
    assert_eq!((&*tables.flows.outcome[0], tables.flows.received_bytes[0]), ("completed", 1_000_000));
    // 8 Mbit at 2 Mbit/s, after the handshake of 42 ms; the last bytes need 21 ms.
    let expected = 0.042 + 8.0 / 2.0 + 0.021;
    assert!((tables.flows.duration_s[0] - expected).abs() < 0.01, "{}", tables.flows.duration_s[0]);
}

#[test]
fn states_of_a_split_flow_are_of_its_legs() {
    let measure_and_flow = super::proxies::gateway("") + &super::proxies::download("cc = \"bbr3\"\nsize = \"1 MB\"");
    let text = super::proxies::network(super::proxies::GEO, "", &measure_and_flow);
    let text = text.replace("series = \"100 ms\"", "series = \"100 ms\"\nstates = \"changes\"");
    let states = result(&text).tables.states;
    let Values::OptionU32(legs) = fixed(&states, "leg") else { panic!("it is a number") };
    assert!(legs.contains(&Some(1)) && legs.contains(&Some(2)) && !legs.contains(&None), "{legs:?}");
    // The gateway sends with CUBIC, which shows no state.
    let first = names(&states, "state");
    assert!(legs.iter().zip(first).all(|(leg, state)| (*leg == Some(1)) != state.is_empty()));
}
