//! Laws of adaptive video and of video calls.

use super::{result, through_router};
use perigee_results::Tables;

/// A video over this bottleneck.
fn watched(bottleneck: &str, keys: &str) -> Tables {
    let flow = format!("[[flows]]\nname = \"v\"\nkind = \"video\"\nfrom = \"a\"\nto = \"b\"\n{keys}");
    result(&through_router(bottleneck, &flow)).tables
}

/// A call over this bottleneck.
fn called(bottleneck: &str, keys: &str) -> Tables {
    let flow =
        format!("[[flows]]\nname = \"c\"\nkind = \"call\"\nfrom = \"a\"\nto = \"b\"\nduration = \"10 s\"\n{keys}");
    result(&through_router(bottleneck, &flow)).tables
}

/// Completion time of each segment, s.
fn arrivals(tables: &Tables) -> Vec<f64> {
    let exchanges = &tables.exchanges;
    let ends = exchanges.start_s.iter().zip(&exchanges.duration_ms).map(|(start, ms)| start + ms.expect("whole") / 1e3);
    ends.collect()
}

#[test]
fn a_video_on_an_unlimited_link_never_stalls_and_reaches_the_top_of_its_ladder() {
    for algorithm in ["bola", "rate"] {
        let keys = format!("duration = \"3 min\"\nalgorithm = \"{algorithm}\"");
        let tables = watched("rate = \"unlimited\"\ndelay = \"5 ms\"", &keys);
        let videos = &tables.videos;
        assert!(tables.flows.completed[0]);
        assert_eq!((videos.segments[0], videos.stalls[0], videos.stalled_s[0]), (45, 0, 0.0), "{algorithm}");
        let sizes = &tables.exchanges.response_bytes;
        // The first at 235 kbit/s, the last at 5.8 Mbit/s, each of 4 s.
        assert_eq!((sizes[0], sizes[44]), (117_500, 2_900_000), "{algorithm}");
        assert!(sizes.is_sorted(), "{algorithm}: never down");
        // The handshake, the request, and slow start.
        assert_eq!(videos.startup_delay_s[0], Some(arrivals(&tables)[0]));
        let steps = sizes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(videos.switches[0] as usize, steps);
        let mean = sizes.iter().sum::<u64>() as f64 * 8.0 / 180.0 / 1e6;
        assert!((videos.bitrate_mbps[0].expect("the video has segments") - mean).abs() < 1e-9);
    }
}

#[test]
fn a_full_buffer_paces_requests_by_playback() {
    let tables = watched("rate = \"1 Gbit/s\"\ndelay = \"5 ms\"", "duration = \"1 min\"\nbuffer = \"20 s\"");
    let starts = &tables.exchanges.start_s;
    // Once the buffer holds 20 s, 16 s after playback starts, each segment is requested when another was played.
    assert!(starts[5] > 4.0, "{starts:?}");
    for pair in starts[5..].windows(2) {
        assert!((pair[1] - pair[0] - 4.0).abs() < 1e-9, "{starts:?}");
    }
}

#[test]
fn a_video_on_a_link_slower_than_its_lowest_rate_stalls_before_each_segment() {
    let tables = watched(
        "rate = \"500 kbit/s\"\ndelay = \"5 ms\"\nqueue = \"50 kB\"",
        "duration = \"20 s\"\nladder = [\"1 Mbit/s\", \"2 Mbit/s\"]\nalgorithm = \"rate\"",
    );
    let (videos, at) = (&tables.videos, arrivals(&tables));
    assert_eq!((videos.segments[0], videos.stalls[0], videos.switches[0]), (5, 4, 0));
    // Four segments of 4 s were played between the arrivals of the first and the last one.
    let stalled_s = at[4] - at[0] - 16.0;
    assert!((videos.stalled_s[0] - stalled_s).abs() < 1e-6, "{} {stalled_s}", videos.stalled_s[0]);
    let share = videos.stalled_percent[0].expect("the video has segments");
    assert!((share - 100.0 * stalled_s / (stalled_s + 20.0)).abs() < 1e-6);
    assert!(share > 40.0, "20 Mbit take 40 s: {share}");
}

#[test]
fn a_video_cut_off_by_the_time_limit_has_stalled_until_then() {
    let link = "rate = \"500 kbit/s\"\ndelay = \"5 ms\"\nqueue = \"50 kB\"";
    let flow = "[[flows]]\nname = \"v\"\nkind = \"video\"\nfrom = \"a\"\nto = \"b\"\nduration = \"1 min\"\nladder = [\"1 Mbit/s\"]";
    let text = through_router(link, flow).replacen("name = \"test\"", "name = \"test\"\ntime_limit = \"15 s\"", 1);
    let tables = result(&text).tables;
    let (videos, start_s) = (&tables.videos, tables.videos.startup_delay_s[0].expect("playback started"));
    assert_eq!((&*tables.flows.outcome[0], videos.segments[0], videos.stalls[0]), ("time_limit", 1, 1));
    assert!((videos.stalled_s[0] - (15.0 - start_s - 4.0)).abs() < 1e-6, "{} {start_s}", videos.stalled_s[0]);
}

#[test]
fn a_frame_over_a_free_link_takes_its_packets_and_the_delay() {
    let tables = called("rate = \"8 Mbit/s\"\ndelay = \"50 ms\"", "rate = \"960 kbit/s\"");
    let calls = &tables.calls;
    assert_eq!((calls.frames[0], calls.whole_frames[0], calls.on_time_frames[0]), (300, 300, 300));
    assert_eq!((calls.freezes[0], calls.frozen_s[0], calls.jitter_max_ms[0]), (0, 0.0, Some(0.0)));
    // Four packets of 1000 B: one over the access link, then all of them over the bottleneck.
    let delay_ms = 1.0 + 0.008 + 4.0 + 50.0;
    assert!((calls.delay_mean_ms[0].expect("frames") - delay_ms).abs() < 1e-6, "{:?}", calls.delay_mean_ms);
    assert_eq!((tables.flows.sent_packets[0], tables.flows.lost_packets[0]), (Some(1200), Some(0)));
}

#[test]
fn a_call_is_late_beyond_its_deadline_and_on_time_within_it() {
    let link = "rate = \"8 Mbit/s\"\ndelay = \"200 ms\"";
    let late = called(link, "rate = \"960 kbit/s\"").calls;
    assert_eq!((late.whole_frames[0], late.on_time_frames[0], late.frozen_percent[0]), (300, 0, Some(100.0)));
    let on_time = called(link, "rate = \"960 kbit/s\"\ndeadline = \"206 ms\"").calls;
    assert_eq!((on_time.on_time_percent[0], on_time.freezes[0]), (Some(100.0), 0));
}

#[test]
fn a_call_on_a_link_slower_than_its_rate_freezes() {
    let calls = called("rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"1 MB\"", "rate = \"1.2 Mbit/s\"").calls;
    // Each second adds 200 ms to the queue: after 0.7 s, all frames are late.
    assert_eq!((calls.frames[0], calls.whole_frames[0], calls.freezes[0]), (300, 300, 1));
    assert!(calls.frozen_percent[0] > Some(90.0), "{:?}", calls.frozen_percent);
    assert!(calls.on_time_percent[0] < Some(10.0) && calls.on_time_frames[0] > 0, "{:?}", calls.on_time_percent);
}
