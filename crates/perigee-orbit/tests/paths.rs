//! Paths over constellations compared with plain geometry: each satellite at each instant, without pruning or interpolation.

use std::sync::Arc;

use perigee_orbit::{
    read_elements, Constellation, Gateway, Path, PathSpec, Pattern, Place, Satellite, Shell, Utc, Weights,
};
use perigee_units::Time;

const SHELL: Shell = Shell {
    altitude_km: 550.0,
    inclination_deg: 53.0,
    planes: 24,
    per_plane: 22,
    phasing: 5.0,
    pattern: Pattern::Delta,
    raan_deg: 10.0,
};

fn place(lat_deg: f64, lon_deg: f64) -> Place {
    Place { lat_deg, lon_deg, alt_m: 100.0 }
}

fn spec(shells: &[Shell]) -> PathSpec {
    let date = Utc::day("2024-05-01").expect("a day");
    PathSpec {
        constellation: Arc::new(Constellation::of_shells(shells, date)),
        user: place(50.5, 4.9),
        gateways: vec![
            Gateway { name: "north".into(), place: place(51.0, 2.1) },
            Gateway { name: "south".into(), place: place(44.8, -0.6) },
        ],
        elevation_deg: 25.0,
        gateway_elevation_deg: 20.0,
        isl: false,
        weights: Weights { elevation: 1.0, age: 0.0, load: 0.0, seed: 1 },
        period: Time::from_secs(15),
        phase: Time::from_secs(12),
        date,
    }
}

/// Range in km and elevation in degrees of a point in TEME; the point is rotated into the frame of the Earth.
fn look(place: Place, satellite: [f64; 3], t: Utc) -> (f64, f64) {
    let (lat, lon) = (place.lat_deg.to_radians(), place.lon_deg.to_radians());
    let theta = perigee_orbit::gmst_rad(t);
    let fixed = [
        satellite[0] * theta.cos() + satellite[1] * theta.sin(),
        satellite[1] * theta.cos() - satellite[0] * theta.sin(),
        satellite[2],
    ];
    let e2 = 6.694_379_990_141e-3;
    let n = 6378.137 / (1.0 - e2 * lat.sin().powi(2)).sqrt();
    let h = place.alt_m / 1000.0;
    let up = [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()];
    let station = [(n + h) * up[0], (n + h) * up[1], (n * (1.0 - e2) + h) * up[2]];
    let line = [0, 1, 2].map(|i| fixed[i] - station[i]);
    let range = line.iter().map(|x| x * x).sum::<f64>().sqrt();
    let sine = (0..3).map(|i| line[i] * up[i]).sum::<f64>() / range;
    (range, sine.asin().to_degrees())
}

#[test]
fn the_highest_satellite_that_stays_in_view_of_both_ends_is_chosen_and_the_delay_is_that_of_light() {
    let path = Path::new(spec(&[Shell { planes: 5, ..SHELL }])).unwrap();
    let satellites: Vec<Satellite> =
        path.constellation().satellites.iter().map(|elements| Satellite::new(elements).unwrap()).collect();
    let (mut with, mut without) = (0, 0);
    // Every seventh slot of three hours, and some before the start of the day.
    for slot in (-64..720).step_by(7) {
        let ends = [path.begin(slot), path.begin(slot + 1)];
        let elevations = |place: Place, i: usize| ends.map(|t| look(place, satellites[i].position(t).unwrap(), t).1);
        let mut best: Option<(f64, u32)> = None;
        for i in 0..satellites.len() {
            let of_user = elevations(path.spec().user, i);
            let is_seen = |gateway: &Gateway| elevations(gateway.place, i).iter().all(|el| *el >= 20.0);
            if of_user.iter().all(|el| *el >= 25.0) && path.spec().gateways.iter().any(is_seen) {
                let mean = of_user.iter().sum::<f64>();
                if best.is_none_or(|(most, _)| mean > most) {
                    best = Some((mean, i as u32));
                }
            }
        }
        let route = path.route(slot);
        assert_eq!(route.as_ref().map(|route| route.satellites.clone()), best.map(|(_, i)| vec![i]), "slot {slot}");
        let Some(route) = route else {
            without += 1;
            continue;
        };
        with += 1;
        for ms in [0, 3_100, 7_500, 11_900, 15_000] {
            let t = path.begin(slot) + Time::from_millis(ms);
            let satellite = satellites[route.satellites[0] as usize].position(t).unwrap();
            let gateway = path.spec().gateways[route.gateway as usize].place;
            let km = look(path.spec().user, satellite, t).0 + look(gateway, satellite, t).0;
            let ns = km / 299_792.458 * 1e9;
            let delay = route.delay(Time::from_millis(ms)).as_nanos() as f64;
            assert!((delay - ns).abs() < 2.0, "{delay} ns, and light takes {ns}");
        }
    }
    assert!(with > 30 && without > 0, "{with} with, {without} without a path");
}

#[test]
fn a_path_over_lasers_reaches_a_gateway_across_the_sea_and_is_no_shorter_than_the_great_circle() {
    let far = Gateway { name: "New York".into(), place: place(40.7, -74.0) };
    let spec = PathSpec { isl: true, gateways: vec![far], ..spec(&[SHELL]) };
    let path = Path::new(spec.clone()).unwrap();
    let routes: Vec<_> = (0..40).filter_map(|slot| path.route(slot)).collect();
    assert!(routes.len() > 20, "{}", routes.len());
    for route in routes {
        assert!(route.satellites.len() > 3, "{:?}", route.satellites);
        // 5,950 km on the ground, and at least 550 km each for the uplink and the downlink.
        let ms = route.delay(Time::from_secs(7)).as_millis_f64();
        assert!((22.0..45.0).contains(&ms), "{ms} ms");
    }
    let bent = Path::new(PathSpec { isl: false, ..spec }).unwrap_err();
    assert_eq!(bent.part, "gateways");
}

#[test]
fn slots_can_be_asked_for_in_any_order_and_one_path_is_shared() {
    let (one, two) = (Path::new(spec(&[SHELL])).unwrap(), Path::new(spec(&[SHELL])).unwrap());
    assert!(Arc::ptr_eq(&one, &two));
    let other = Path::new(PathSpec { user: place(50.0, 5.0), ..spec(&[SHELL]) }).unwrap();
    let forth: Vec<_> = (0..130).map(|slot| other.route(slot)).collect();
    drop(other);
    let again = Path::new(PathSpec { user: place(50.0, 5.0), ..spec(&[SHELL]) }).unwrap();
    let back: Vec<_> = (0..130).rev().map(|slot| again.route(slot)).collect();
    assert!(forth.iter().eq(back.iter().rev()));
}

#[test]
fn a_drawn_load_changes_the_choice_and_its_seed_repeats_it() {
    let with = |load, seed| {
        let weights = Weights { elevation: 1.0, age: 0.0, load, seed };
        let path = Path::new(PathSpec { weights, ..spec(&[SHELL]) }).unwrap();
        (0..60).map(|slot| path.route(slot).map(|route| route.satellites[0])).collect::<Vec<_>>()
    };
    let (plain, drawn) = (with(0.0, 1), with(2.0, 1));
    assert_eq!(drawn, with(2.0, 1));
    assert!(plain.iter().zip(&drawn).filter(|(a, b)| a != b).count() > 10);
    assert_ne!(drawn, with(2.0, 2));
}

#[test]
fn ends_that_no_satellite_sees_are_errors_with_a_fix() {
    let error = |spec: PathSpec| Path::new(spec).unwrap_err();
    let polar = error(PathSpec { user: place(78.0, 15.0), ..spec(&[SHELL]) });
    assert_eq!(polar.part, "user");
    assert!(polar.message.contains("no satellite ever rises to 25 degrees at latitude 78"), "{polar}");
    let far = Gateway { name: "far".into(), place: place(-30.0, 150.0) };
    assert_eq!(error(PathSpec { gateways: vec![far.clone()], ..spec(&[SHELL]) }).part, "gateways");
    assert_eq!(error(spec(&[])).part, "elements");
    let polar = Shell { inclination_deg: 87.9, pattern: Pattern::Star, ..SHELL };
    assert!(Path::new(PathSpec { user: place(78.0, 15.0), isl: true, ..spec(&[polar]) }).is_ok());
}

#[test]
fn old_elements_and_decayed_satellites_are_warned_about() {
    let text = "\
ISS (ZARYA)
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
";
    let on = |day: &str| {
        let satellites = read_elements(text.as_bytes()).unwrap().satellites;
        let constellation = Arc::new(Constellation { satellites, shells: Vec::new(), notes: Vec::new() });
        Path::new(PathSpec { constellation, date: Utc::day(day).unwrap(), ..spec(&[]) })
    };
    assert_eq!(on("2020-07-13").unwrap().warnings(), [""; 0]);
    let month = on("2020-08-12").unwrap().warnings();
    assert!(month[0].contains("may be 93 km") || month[0].contains("may be 90 km"), "{month:?}");
    let years = on("2023-08-12").unwrap().warnings();
    assert!(years[0].contains("anywhere on their orbits"), "{years:?}");
    // With a thousand times the drag the satellite decays within days.
    let mut falling = read_elements(text.as_bytes()).unwrap().satellites;
    falling[0].bstar = 0.05;
    let constellation = Arc::new(Constellation { satellites: falling, shells: Vec::new(), notes: Vec::new() });
    let date = Utc::day("2020-08-12").unwrap();
    let error = Path::new(PathSpec { constellation, date, ..spec(&[]) }).unwrap_err();
    assert!(error.message.contains("all 1 satellites have decayed by 2020-08-12"), "{error}");
}
