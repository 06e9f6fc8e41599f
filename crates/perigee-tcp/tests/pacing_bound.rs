//! A bound on the pacing rate, as `SO_MAX_PACING_RATE` sets it, whatever the congestion control.

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_units::{Bytes, Rate, Time};

#[test]
fn a_transfer_has_the_rate_of_its_bound_and_follows_it_within_a_round_trip() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 1_250_000, ..Path::default() };
    let buffers = [4096, 60_000_000, 60_000_000].map(Bytes::new);
    let config = Config { wmem: buffers, rmem: buffers, ..Config::default() };
    for cc in ["cubic", "reno", "bbr"] {
        let mut transfer = Transfer::new(&path, &config, cc);
        transfer.sender.write(1 << 40);
        transfer.open();
        transfer.run(Time::from_secs(5), |_| false);
        for bound in [1_000_000, 500_000, 2_000_000] {
            let changed = transfer.now;
            transfer.sender.bound_pacing(bound);
            transfer.run(changed + path.round_trip * 2, |_| false);
            let before = transfer.sender.acked();
            transfer.run(changed + path.round_trip * 2 + Time::from_secs(4), |_| false);
            let share = (transfer.sender.acked() - before) as f64 / 4.0 / bound as f64;
            // BBR probes for less than the bound once in ten seconds.
            let least = if cc == "bbr" { 0.8 } else { 0.98 };
            assert!((least..1.01).contains(&share), "{cc}: {share:.3} of {bound} B/s");
        }
    }
}
