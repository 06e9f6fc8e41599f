//! A delay from orbits: its keys, its files of elements, their reading, and what reports say of it.

use std::sync::Arc;

use perigee_link::{DelaySpec, OrbitDelay};
use perigee_orbit::{read_elements, Constellation, Gateway, Path, PathSpec, Pattern, Place, Shell, Utc, Weights};
use perigee_text::{
    clip, key, required, Content, Form, Key, Kind, Node, Origin, Process, Reader, Section, StrictError,
};

use super::process::{inside, process, recording, table_of, Load, DELAY_VALUE};
use super::slot_delay::{jitter, overlay_in_words, spikes, JITTERS, SPIKES};
use super::slots::{clock, clock_in_words, PERIOD, PHASE};

pub(super) static ORBIT_DELAY: Section = Section {
    name: "delay, orbit",
    keys: &[
        required("user", Kind::Process(&USERS), "Where the user is."),
        required("gateways", Kind::Process(&GATEWAYS), "Where paths come down: one table, or several in brackets."),
        process(
            "constellation",
            &CONSTELLATIONS,
            "Satellites in a Walker pattern: one shell, or several in brackets. Or `elements`.",
        ),
        key(
            "elements",
            Kind::Text,
            "",
            "A file of satellites instead: two-line elements (TLE), or an orbit mean-elements message (OMM) as JSON, \
             XML, KVN or CSV.",
        ),
        key(
            "date",
            Kind::Text,
            "",
            "The day (UTC) on which a run begins, as `2024-05-01`. Not given: that of the newest elements; for a \
             `constellation` 2024-05-01, which is the epoch of its elements in any case.",
        ),
        key("elevation_deg", ELEVATION, "25", "Least elevation of a satellite at the user."),
        key(
            "gateway_elevation_deg",
            ELEVATION,
            "",
            "Least elevation of a satellite at a gateway. Not given: that at the user.",
        ),
        key(
            "isl",
            Kind::Bool,
            "false",
            "Paths may go on from satellite to satellite: each has a link to its neighbours in its plane and in the \
             planes beside it. Of a `constellation` only.",
        ),
        process("scheduler", &SCHEDULERS, "What the choice of a satellite weighs."),
        key(
            "extra",
            DELAY_VALUE,
            "0 s",
            "What is always added to the time of light: processing, and the way on from the gateway.",
        ),
        process(
            "jitter",
            &JITTERS,
            "What moves within a slot; of each direction alone. With `extra` it is never below zero.",
        ),
        process("spikes", &SPIKES, "Longer delays around the begin of a slot: one table, or several in brackets."),
        PERIOD,
        PHASE,
    ],
};
static USERS: Process =
    Process { name: "user", plain: None, forms: &[Form { kind: None, section: &USER }], is_list: false };
static USER: Section = Section { name: "place of a user", keys: &[LATITUDE, LONGITUDE, ALTITUDE] };
static GATEWAYS: Process =
    Process { name: "gateways", plain: None, forms: &[Form { kind: None, section: &GATEWAY }], is_list: true };
static GATEWAY: Section = Section {
    name: "gateway",
    keys: &[LATITUDE, LONGITUDE, ALTITUDE, key("name", Kind::Text, "gateway", "Its name in tables and pictures.")],
};
static CONSTELLATIONS: Process =
    Process { name: "constellation", plain: None, forms: &[Form { kind: None, section: &SHELL }], is_list: true };
static SHELL: Section = Section {
    name: "shell",
    keys: &[
        required("altitude_km", Kind::Number { min: 160.0, max: 40_000.0 }, "Height above the equator."),
        required("inclination_deg", Kind::Number { min: 0.0, max: 180.0 }, "Inclination."),
        required("planes", Kind::Integer { min: 1, max: 1000 }, "Number of planes."),
        required("satellites", Kind::Integer { min: 1, max: 1000 }, "Satellites per plane."),
        key(
            "phasing",
            Kind::Number { min: -1000.0, max: 1000.0 },
            "0",
            "By how many parts of 360 degrees / (planes x satellites) a satellite is ahead of that in the plane \
             before.",
        ),
        key(
            "pattern",
            Kind::Word(&["delta", "star"]),
            "delta",
            "Planes over all directions, or over half of them, as near-polar orbits are.",
        ),
        key(
            "raan_deg",
            Kind::Number { min: -360.0, max: 360.0 },
            "0",
            "Right ascension of the first plane at the begin of 2024-05-01.",
        ),
    ],
};
static SCHEDULERS: Process =
    Process { name: "scheduler", plain: None, forms: &[Form { kind: None, section: &SCHEDULER }], is_list: false };
static SCHEDULER: Section = Section {
    name: "scheduler",
    keys: &[
        key(
            "elevation",
            WEIGHT,
            "1",
            "Weight of the elevation, as its share of the way from the least one to the zenith.",
        ),
        key(
            "age",
            WEIGHT,
            "0",
            "Weight of youth: one for the satellites of the latest launch, zero for those of the first, and for all \
             of a `constellation`.",
        ),
        key("load", WEIGHT, "0", "Weight of the capacity that others leave, which is drawn per satellite and slot."),
        key(
            "seed",
            Kind::Integer { min: 0, max: u32::MAX as u64 },
            "1",
            "Seed of these draws, which are the same in all rounds.",
        ),
    ],
};

const LATITUDE: Key = required("lat_deg", Kind::Number { min: -90.0, max: 90.0 }, "Degrees north of the equator.");
const LONGITUDE: Key = required("lon_deg", Kind::Number { min: -180.0, max: 360.0 }, "Degrees east of Greenwich.");
const ALTITUDE: Key =
    key("alt_m", Kind::Number { min: -500.0, max: 20_000.0 }, "0", "Metres above the ellipsoid of WGS84.");
const ELEVATION: Kind = Kind::Number { min: 0.0, max: 89.0 };
const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0 };
/// Epoch of generated constellations, an arbitrary day.
const EPOCH: &str = "2024-05-01";
/// Maximum satellites of a constellation.
const MOST_SATELLITES: usize = 100_000;

pub(super) fn orbit_delay(table: &Reader<'_>, load: &mut Load<'_>) -> Result<DelaySpec, StrictError> {
    let clock = clock(table)?;
    let (constellation, date) = constellation(table, load)?;
    let date = match table.table.get::<String>("date")? {
        None => date,
        Some(text) => Utc::day(&text).ok_or_else(|| {
            let message = format!("`{}` = `{}` is no day from 1957 to 2199", table.dotted("date"), clip(&text));
            table.error("date", message, "write it as 2024-05-01")
        })?,
    };
    let isl: bool = table.get("isl")?;
    if isl && table.table.has("elements") {
        let message =
            format!("`{}` is set, and a file of elements does not say who is whose neighbour", table.dotted("isl"));
        return Err(table.error("isl", message, "generate the satellites by `constellation`, or remove `isl`"));
    }
    let elevation_deg = table.get("elevation_deg")?;
    let spec = PathSpec {
        constellation: Arc::new(constellation),
        user: inside(table, "user", user)?.ok_or_else(|| table.table.missing("user"))?,
        gateways: each(table, "gateways", gateway)?,
        elevation_deg,
        gateway_elevation_deg: table.table.get("gateway_elevation_deg")?.unwrap_or(elevation_deg),
        isl,
        weights: inside(table, "scheduler", weights)?.unwrap_or(Weights {
            elevation: 1.0,
            age: 0.0,
            load: 0.0,
            seed: 1,
        }),
        period: clock.period,
        phase: clock.phase,
        date,
    };
    let path = Path::new(spec).map_err(|error| {
        let key = if error.part == "elements" { satellites_key(table) } else { error.part };
        table.error(key, format!("`{}`: {}", table.dotted(key), error.message), error.fix)
    })?;
    Ok(DelaySpec::Orbit(Arc::new(OrbitDelay {
        clock,
        path,
        extra: table.get("extra")?,
        jitter: inside(table, "jitter", jitter)?,
        spikes: inside(table, "spikes", |node, what| spikes(node, what, clock.period))?.unwrap_or_default(),
    })))
}

fn satellites_key(table: &Reader<'_>) -> &'static str {
    if table.table.has("elements") {
        "elements"
    } else {
        "constellation"
    }
}

/// The satellites, and the day of their elements.
fn constellation(table: &Reader<'_>, load: &mut Load<'_>) -> Result<(Constellation, Utc), StrictError> {
    let file: Option<String> = table.table.get("elements")?;
    let error = |key, message: String, fix: &str| Err(table.error(key, message, fix));
    match (file, table.table.has("constellation")) {
        (Some(_), true) => {
            let message = format!("`{}` stands beside `constellation`", table.dotted("elements"));
            error("elements", message, "keep one of them")
        }
        (None, false) => {
            let message = format!("`{}` is missing", table.dotted("constellation"));
            error("constellation", message, "add `constellation = { ... }`, or `elements = \"FILE\"`")
        }
        (Some(name), false) => {
            let constellation = recording(table, "elements", &name, load, |bytes, file| {
                read_elements(bytes)
                    .map_err(|error| StrictError::new(&Origin::line(file, error.line), error.message, error.fix))
            })?;
            let newest =
                constellation.satellites.iter().map(|satellite| satellite.epoch.midnight()).max().unwrap_or_default();
            Ok((constellation, newest))
        }
        (None, true) => {
            let shells = each(table, "constellation", shell)?;
            let count: usize = shells.iter().map(|shell| shell.planes as usize * shell.per_plane as usize).sum();
            if count > MOST_SATELLITES {
                let message = format!("{count} satellites are more than a constellation may have ({MOST_SATELLITES})");
                return error("constellation", message, "use fewer planes, or fewer satellites in each");
            }
            let epoch = Utc::day(EPOCH).unwrap_or_default();
            Ok((Constellation::of_shells(&shells, epoch), epoch))
        }
    }
}

/// One table, or an array of tables.
fn each<T>(
    table: &Reader<'_>,
    key: &str,
    read: impl Fn(&Node, &str) -> Result<T, StrictError>,
) -> Result<Vec<T>, StrictError> {
    let Some(node) = table.table.node(key) else { return Err(table.table.missing(key)) };
    let what = table.dotted(key);
    match &node.content {
        Content::Array(nodes) if nodes.is_empty() => {
            Err(table.error(key, format!("`{what}` is empty"), "write one table or more: [{ ... }]"))
        }
        Content::Array(nodes) => nodes.iter().map(|node| read(node, &what)).collect(),
        _ => Ok(vec![read(node, &what)?]),
    }
}

fn user(node: &Node, what: &str) -> Result<Place, StrictError> {
    place(&table_of(&USERS, node, what)?.1)
}

fn gateway(node: &Node, what: &str) -> Result<Gateway, StrictError> {
    let (_, table) = table_of(&GATEWAYS, node, what)?;
    Ok(Gateway { name: table.get("name")?, place: place(&table)? })
}

fn place(table: &Reader<'_>) -> Result<Place, StrictError> {
    Ok(Place { lat_deg: table.get("lat_deg")?, lon_deg: table.get("lon_deg")?, alt_m: table.get("alt_m")? })
}

fn shell(node: &Node, what: &str) -> Result<Shell, StrictError> {
    let (_, table) = table_of(&CONSTELLATIONS, node, what)?;
    Ok(Shell {
        altitude_km: table.get("altitude_km")?,
        inclination_deg: table.get("inclination_deg")?,
        planes: table.get::<u64>("planes")? as u32,
        per_plane: table.get::<u64>("satellites")? as u32,
        phasing: table.get("phasing")?,
        pattern: if table.get::<String>("pattern")? == "star" { Pattern::Star } else { Pattern::Delta },
        raan_deg: table.get("raan_deg")?,
    })
}

fn weights(node: &Node, what: &str) -> Result<Weights, StrictError> {
    let (_, table) = table_of(&SCHEDULERS, node, what)?;
    Ok(Weights {
        elevation: table.get("elevation")?,
        age: table.get("age")?,
        load: table.get("load")?,
        seed: table.get("seed")?,
    })
}

/// The delay in words.
pub(super) fn in_words(orbit: &OrbitDelay) -> String {
    let OrbitDelay { clock, path, extra, jitter, spikes } = orbit;
    let spec = path.spec();
    let place = |place: &Place| format!("{} N {} E", place.lat_deg, place.lon_deg);
    let gateways: Vec<String> =
        spec.gateways.iter().map(|gateway| format!("{} ({})", gateway.name, place(&gateway.place))).collect();
    let day = spec.date.to_string();
    let mut words = vec![
        format!(
            "{} satellites on {}",
            path.constellation().satellites.len(),
            day.split('T').next().unwrap_or_default()
        ),
        format!("user at {} above {} degrees", place(&spec.user), spec.elevation_deg),
        format!("gateways {} above {} degrees", gateways.join(", "), spec.gateway_elevation_deg),
        if spec.isl { "over lasers".to_owned() } else { "one satellite".to_owned() },
        format!("weights elevation {}, age {}, load {}", spec.weights.elevation, spec.weights.age, spec.weights.load),
        clock_in_words(clock),
        format!("light and {extra}"),
    ];
    words.extend(overlay_in_words(jitter.as_ref(), spikes));
    words.extend(path.warnings().into_iter().map(|warning| format!("warning: {warning}")));
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use perigee_link::LinkSpec;
    use perigee_units::Time;

    use super::*;
    use crate::read_link_spec;

    const SHELL: &str = "constellation = { altitude_km = 550, inclination_deg = 53, planes = 24, satellites = 22 }";
    const ENDS: &str = "user = { lat_deg = 50, lon_deg = 5 }, gateways = [{ lat_deg = 51, lon_deg = 2 }]";
    const ISS: &str = "\
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
";

    fn read(keys: &str) -> Result<LinkSpec, String> {
        let text = format!("rate = \"1 Mbit/s\"\ndelay = {{ kind = \"orbit\", {keys} }}");
        let tree = perigee_text::parse(&text, "f.toml").map_err(|e| e.to_string())?;
        let mut load = |name: &str| match name {
            "iss" => Ok(ISS.as_bytes().to_vec()),
            "cut" => Ok(ISS.as_bytes()[..80].to_vec()),
            _ => Err("no such file".to_owned()),
        };
        read_link_spec(&tree, "", &mut load).map_err(|e| e.to_string())
    }

    fn orbit(keys: &str) -> Arc<OrbitDelay> {
        match read(keys).map(|spec| spec.delay) {
            Ok(DelaySpec::Orbit(orbit)) => orbit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_left_out_has_its_declared_default() {
        let delay = orbit(&format!("{SHELL}, {ENDS}"));
        let spec = delay.path.spec();
        assert_eq!(spec.constellation.satellites.len(), 528);
        assert_eq!((spec.elevation_deg, spec.gateway_elevation_deg, spec.isl), (25.0, 25.0, false));
        assert_eq!(spec.weights, Weights { elevation: 1.0, age: 0.0, load: 0.0, seed: 1 });
        assert_eq!((spec.period, spec.phase), (Time::from_secs(15), Time::from_secs(12)));
        assert_eq!(spec.date, Utc::day("2024-05-01").unwrap());
        assert_eq!((delay.extra, delay.jitter, delay.spikes.len()), (Time::ZERO, None, 0));
        let typical = read(&format!("{SHELL}, {ENDS}, extra = \"5 ms\"")).unwrap().delay.typical();
        assert!((Time::from_millis(8)..Time::from_millis(14)).contains(&typical), "{typical}");
    }

    #[test]
    fn satellites_come_from_a_file_with_the_day_of_its_newest_elements() {
        let delay = orbit(&format!("elements = \"iss\", elevation_deg = 5, {ENDS}"));
        assert_eq!(delay.path.spec().date, Utc::day("2020-07-12").unwrap());
        let later = orbit(&format!("elements = \"iss\", date = \"2020-07-14\", elevation_deg = 5, {ENDS}"));
        assert_eq!(later.path.spec().date, Utc::day("2020-07-14").unwrap());
    }

    #[test]
    fn each_mistake_names_its_line_and_its_fix() {
        let error = |keys: &str| read(keys).unwrap_err();
        assert_eq!(
            error(ENDS),
            "f.toml:2: `delay.constellation` is missing; add `constellation = { ... }`, or `elements = \"FILE\"`"
        );
        assert_eq!(
            error(&format!("{SHELL}, elements = \"iss\", {ENDS}")),
            "f.toml:2: `delay.elements` stands beside `constellation`; keep one of them"
        );
        assert_eq!(
            error(&format!("elements = \"cut\", {ENDS}")),
            "cut:1: line 1 of a satellite has no line 2; put its line 2 after it"
        );
        assert_eq!(
            error(&format!("elements = \"none\", {ENDS}")),
            "f.toml:2: cannot read `none`: no such file; check the path"
        );
        assert!(error(&format!("{SHELL}, {ENDS}, period = \"14 s\"")).contains("slots of 14 s do not divide a minute"));
        assert_eq!(
            error(&format!("{SHELL}, {ENDS}, date = \"1.5.2024\"")),
            "f.toml:2: `delay.date` = `1.5.2024` is no day from 1957 to 2199; write it as 2024-05-01"
        );
        assert_eq!(
            error(&format!(
                "{SHELL}, user = {{ lat_deg = 78, lon_deg = 15 }}, gateways = {{ lat_deg = 51, lon_deg = 2 }}"
            )),
            "f.toml:2: `delay.user`: no satellite ever rises to 25 degrees at latitude 78; move the user, lower \
             `elevation_deg`, or add satellites of a higher inclination"
        );
        let far = "user = { lat_deg = 50, lon_deg = 5 }, gateways = { lat_deg = 51, lon_deg = 120 }";
        assert!(
            error(&format!("{SHELL}, {far}")).starts_with("f.toml:2: `delay.gateways`: no satellite ever is in view")
        );
        assert!(read(&format!("{SHELL}, {far}, isl = true")).is_ok());
        assert!(error(&format!("elements = \"iss\", isl = true, {ENDS}")).contains("who is whose neighbour"));
        assert!(error(&format!("{SHELL}, user = {{ lat_deg = 50, lon_deg = 5 }}, gateways = []")).contains("is empty"));
        assert!(error(&SHELL.replace("550", "50")).contains("`delay.user` is missing"));
        assert!(error(&format!("{}, {ENDS}", SHELL.replace("550", "50")))
            .contains("`delay.constellation.altitude_km` = 50"));
        let many = SHELL.replace("24", "1000").replace("22", "1000");
        assert!(error(&format!("{many}, {ENDS}")).contains("1000000 satellites are more than"));
        assert!(error(&format!("{SHELL}, {ENDS}, elevation_deg = 90")).contains("`delay.elevation_deg` = 90"));
    }
}
