//! Laws of a split over random networks: data received when a stream is cut off, and the maximum cost of a split.
//!
//! Segments count their payload without carrying it, so counts at each leg show that it is the same and in order.

use perigee_results::Tables;
use proptest::prelude::*;

use super::proxies::{download, gateway, network, terminal};
use super::result;

/// Received bytes by leg, from the server to the client, and of the flow itself; and whether the flow is complete.
fn received(tables: &Tables, flow: &str) -> (Vec<u64>, u64, bool) {
    let flows = &tables.flows;
    let rows: Vec<usize> = (0..flows.flow.len()).filter(|row| &*flows.flow[*row] == flow).collect();
    let (whole, legs): (Vec<usize>, Vec<usize>) = rows.into_iter().partition(|row| flows.leg[*row].is_none());
    let [whole] = whole[..] else { panic!("the flow does not have exactly one row") };
    let legs = legs.into_iter().map(|row| flows.received_bytes[row]).collect();
    (legs, flows.received_bytes[whole], flows.completed[whole])
}

/// Kilobytes of a flow, the buffers of its two proxies and the memory of each.
type Sizes = (u64, [u64; 2], u64);
/// Gap and length of the satellite's outages, ms, the time limit, s, and the retries of a connection.
type Outages = (u64, u64, u64, u32);
/// Whether the proxies connect first, whether the sender opens, and the seed.
type Ways = (bool, bool, u32);

/// Two flows over two proxies and a satellite that is dark at times: the client of an interrupted one has its beginning.
fn beginnings(
    (kilobytes, buffers, memory): Sizes,
    (gap_ms, dark_ms, limit_s, retries): Outages,
    (connect, upload, seed): Ways,
) -> Result<(), TestCaseError> {
    let handshake = if connect { "connect-first" } else { "accept-first" };
    let lines = |buffer: u64| format!("handshake = \"{handshake}\"\nbuffer = \"{buffer} B\"\nmemory = \"{memory} B\"");
    let opened_by = if upload { "sender" } else { "receiver" };
    let flows = download(&format!("size = \"{kilobytes} kB\"\nopened_by = \"{opened_by}\"\ncount = 2"));
    let dark = format!("loss = {{ kind = \"outages\", gap = \"{gap_ms} ms\", length = \"{dark_ms} ms\" }}");
    let satellite = format!("rate = \"5 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"60 kB\"\n{dark}");
    let text = network(&satellite, &(gateway(&lines(buffers[0])) + &terminal(&lines(buffers[1]))), &flows)
        .replacen("time_limit = \"20 min\"", &format!("time_limit = \"{limit_s} s\"\nseed = {seed}"), 1)
        .replacen("[hosts]", &format!("[hosts]\nretries2 = {retries}\nsyn_retries = {retries}"), 1);
    let tables = result(&text).tables;
    for flow in ["download.1", "download.2"] {
        let (legs, whole, completed) = received(&tables, flow);
        prop_assert_eq!(legs.len(), 3);
        prop_assert!(legs.is_sorted_by(|before, behind| before >= behind), "{:?} of {}", legs, text);
        prop_assert_eq!(legs[2], whole);
        prop_assert!(whole <= kilobytes * 1000);
        prop_assert_eq!(completed, whole == kilobytes * 1000, "{} B of {}", whole, text);
    }
    for (held, proxy) in tables.proxies.held_max_bytes.iter().zip(&tables.proxies.proxy) {
        let buffer = if &**proxy == "gateway" { buffers[0] } else { buffers[1] };
        prop_assert!(*held <= memory.min(4 * buffer), "{} B held of {}", held, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_client_of_an_interrupted_stream_has_its_beginning(
        sizes in (50_u64..2000, [1000_u64..300_000, 1000_u64..300_000], 20_000_u64..400_000),
        outages in (300_u64..10_000, 50_u64..20_000, 2_u64..60, 1_u32..6),
        ways in (any::<bool>(), any::<bool>(), 0_u32..1000),
    ) {
        beginnings(sizes, outages, ways)?;
    }
}

/// Its end at the client kept a timer, which came with nothing due.
#[test]
fn a_flow_that_is_reset_leaves_no_timer() {
    beginnings((1216, [21_721, 1000], 39_098), (4123, 5611, 18, 2), (false, true, 800)).expect("the laws hold");
}

/// All algorithms except PCC Vivace, which tries rates: one path in a hundred takes longer with a split.
const LAWFUL: [&str; 12] = [
    "bbr",
    "bic",
    "compound",
    "cubic",
    "highspeed",
    "htcp",
    "hybla",
    "reno",
    "sicc",
    "vegas",
    "westwood",
    "westwood_plus",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn without_losses_and_limits_a_split_costs_at_most_one_handshake(
        (kilobytes, rates) in (20_u64..1500, [2_u64..200, 2_u64..200]),
        (delays_us, cc) in ([100_u64..30_000, 100_u64..300_000], prop::sample::select(&LAWFUL[..])),
    ) {
        let link = |name: &str, ends: &str, rate: u64, delay_us: u64| {
            format!("[[links]]\nname = \"{name}\"\nbetween = [{ends}]\nrate = \"{rate} Mbit/s\"\n\
                delay = \"{delay_us} us\"\nqueue = \"1 GB\"\n")
        };
        let side = |link: &str| format!("[proxies.sides.{link}]\ncc = \"{cc}\"\n");
        let duration = |enabled: bool| {
            let text = [
                "name = \"test\"\nnodes = [\"server\", \"gateway\", \"client\"]\n".to_owned(),
                "[hosts]\nrmem = [\"4 KiB\", \"128 KiB\", \"64 MiB\"]\nwmem = [\"4 KiB\", \"16 KiB\", \"64 MiB\"]\n".to_owned(),
                link("wire", "\"server\", \"gateway\"", rates[0], delays_us[0]),
                link("satellite", "\"gateway\", \"client\"", rates[1], delays_us[1]),
                download(&format!("size = \"{kilobytes} kB\"\ncc = \"{cc}\"")),
                format!("[[proxies]]\nname = \"pep\"\nnode = \"gateway\"\nbuffer = \"1 GB\"\nenabled = {enabled}\n"),
                side("wire"),
                side("satellite"),
            ];
            let tables = result(&text.concat()).tables;
            assert!(tables.flows.completed[0]);
            tables.flows.duration_s[0]
        };
        let (split, direct) = (duration(true), duration(false));
        let handshake = 2e-6 * (delays_us[0] + delays_us[1]) as f64;
        prop_assert!(split <= direct + handshake, "{} s split, {} s direct, {} s a round trip", split, direct, handshake);
    }
}
