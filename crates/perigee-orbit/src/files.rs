//! Files of elements: two-line elements (TLE), and orbit mean-elements messages (OMM, CCSDS 502.0-B) as JSON, XML or KVN.

use std::collections::BTreeMap;

use crate::elements::{Elements, ElementsError};
use crate::records::{json, key_values, xml, Field, RawElements};
use crate::satellite::Satellite;
use crate::Utc;

/// Reads all satellites of a file. Its format is recognised by how it begins: `[` or `{` is JSON, `<` XML, a `1` that a
/// line of 69 characters begins with is TLE, and a line with `=` KVN.
///
/// # Errors
/// If the file is empty, too large, not text, or a satellite is not as its format has it, or is there twice.
///
/// ```
/// let text = "\
/// ISS (ZARYA)
/// 1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
/// 2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
/// ";
/// let satellites = perigee_orbit::read_elements(text.as_bytes()).unwrap();
/// assert_eq!((satellites[0].name.as_str(), satellites[0].launched), ("ISS (ZARYA)", Some(1_998_067)));
/// assert_eq!(satellites[0].epoch.to_string(), "2020-07-12T21:16:01.000");
/// ```
pub fn read_elements(bytes: &[u8]) -> Result<Vec<Elements>, ElementsError> {
    if bytes.len() > LARGEST {
        let message = format!("{} bytes are more than a file of elements may have ({LARGEST})", bytes.len());
        return Err(ElementsError::new(1, message, MEANT));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let lines = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count();
        ElementsError::new(lines as u32 + 1, "not a text file", MEANT)
    })?;
    let satellites = match text.trim_start().chars().next() {
        None => return Err(ElementsError::new(1, "the file has no elements", MEANT)),
        Some('[' | '{') => of_records(&json(text)?)?,
        Some('<') => of_records(&xml(text)?)?,
        Some(_) if text.lines().any(|line| is_tle(line, '1')) => two_line(text)?,
        Some(_) if text.lines().any(|line| line.contains('=')) => of_records(&key_values(text)?)?,
        Some(_) => {
            let fix = "give a file of two-line elements, or an OMM as JSON, XML or KVN";
            return Err(ElementsError::new(1, "neither two-line elements nor an orbit mean-elements message", fix));
        }
    };
    let mut known = BTreeMap::new();
    for (satellite, line) in &satellites {
        if Satellite::new(satellite).is_none() {
            let message = format!("the elements of {} are of no orbit that SGP4 knows", satellite.name);
            return Err(ElementsError::new(*line, message, "check mean motion and eccentricity, or remove them"));
        }
        if let Some(first) = known.insert((&satellite.name, satellite.epoch), line) {
            let message = format!("{} is there twice, first in line {first}", satellite.name);
            return Err(ElementsError::new(*line, message, "remove one of them"));
        }
    }
    Ok(satellites.into_iter().map(|(satellite, _)| satellite).collect())
}

fn is_tle(line: &str, number: char) -> bool {
    let mut letters = line.chars();
    letters.next() == Some(number) && letters.next() == Some(' ') && line.trim_end().len() > TLE_LENGTH / 2
}

/// Two-line elements, with or without a line of the name before them.
fn two_line(text: &str) -> Result<Vec<(Elements, u32)>, ElementsError> {
    let lines = text.lines().enumerate().map(|(i, line)| (i as u32 + 1, line.trim_end()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let mut satellites = Vec::new();
    let mut name: Option<&str> = None;
    while let Some((at, line)) = lines.next() {
        if !is_tle(line, '1') {
            if let Some(before) = name {
                let message = format!("`{}` is followed by another name, not by its line 1", clip(before));
                return Err(ElementsError::new(at - 1, message, "put both lines of each satellite after its name"));
            }
            name = Some(line.strip_prefix("0 ").unwrap_or(line).trim());
            continue;
        }
        let second = lines.next_if(|(_, line)| is_tle(line, '2'));
        let Some((at_second, second)) = second else {
            return Err(ElementsError::new(at, "line 1 of a satellite has no line 2", "put its line 2 after it"));
        };
        satellites.push((of_lines(name.take(), (at, line), (at_second, second))?, at));
    }
    match name {
        Some(name) => {
            let message = format!("`{}` has no elements", clip(name));
            Err(ElementsError::new(
                text.lines().count() as u32,
                message,
                "put both lines of the satellite after its name",
            ))
        }
        None => Ok(satellites),
    }
}

fn of_lines(name: Option<&str>, first: (u32, &str), second: (u32, &str)) -> Result<Elements, ElementsError> {
    for (at, line) in [first, second] {
        let length = line.len();
        if length != TLE_LENGTH || !line.is_ascii() {
            let message = format!("{length} characters, where a line of two-line elements has {TLE_LENGTH}");
            return Err(ElementsError::new(at, message, "take the lines as they were published"));
        }
        let sum: u32 =
            line[..TLE_LENGTH - 1].chars().map(|c| if c == '-' { 1 } else { c.to_digit(10).unwrap_or(0) }).sum();
        if line.chars().last().and_then(|c| c.to_digit(10)) != Some(sum % 10) {
            let message = format!("the checksum is {}, and the line has {}", sum % 10, &line[TLE_LENGTH - 1..]);
            return Err(ElementsError::new(at, message, "take the line as it was published"));
        }
    }
    let read = sgp4::Elements::from_tle(name.map(str::to_owned), first.1.as_bytes(), second.1.as_bytes());
    let read = read.map_err(|error| {
        let message = error.to_string();
        let at = if message.contains("line 2") { second.0 } else { first.0 };
        ElementsError::new(at, message, "take the lines as they were published")
    })?;
    let epoch = Utc::of(read.datetime).ok_or_else(|| {
        ElementsError::new(first.0, format!("the epoch is {}", read.datetime), "use elements of 1957 to 2200")
    })?;
    Ok(Elements {
        name: read.object_name.unwrap_or_else(|| read.norad_id.to_string()),
        launched: read.international_designator.as_deref().and_then(launch),
        epoch,
        inclination_deg: read.inclination,
        raan_deg: read.right_ascension,
        eccentricity: read.eccentricity,
        perigee_deg: read.argument_of_perigee,
        anomaly_deg: read.mean_anomaly,
        revolutions_per_day: read.mean_motion,
        bstar: read.drag_term,
        grid: None,
    })
}

/// Year and number of a launch from a designator: `1998-067A` in an OMM, which SGP4's reader makes of `98067A` too.
fn launch(designator: &str) -> Option<u32> {
    let (year, rest) = designator.trim().split_once('-')?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let (year, number): (u32, u32) = (year.parse().ok()?, number.parse().ok()?);
    ((1957..2200).contains(&year) && number < 1000).then_some(year * 1000 + number)
}

fn of_records(records: &[RawElements]) -> Result<Vec<(Elements, u32)>, ElementsError> {
    if records.is_empty() {
        return Err(ElementsError::new(1, "the file has no elements", MEANT));
    }
    records.iter().map(|record| of_record(record).map(|elements| (elements, record.line))).collect()
}

fn of_record(record: &RawElements) -> Result<Elements, ElementsError> {
    let field = |key: &str| {
        let missing = || ElementsError::new(record.line, format!("`{key}` is missing"), "add it");
        record.fields.get(key).ok_or_else(missing)
    };
    let number = |key: &str, least: f64, most: f64| {
        let Field { text, line } = field(key)?;
        match text.parse::<f64>() {
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            Ok(value) => {
                let fix = format!("use a value from {least} to {most}");
                Err(ElementsError::new(*line, format!("`{key}` = {value} is out of range"), fix))
            }
            Err(_) => {
                let message = format!("`{key}` = `{}` is not a number", clip(text));
                Err(ElementsError::new(*line, message, "write a decimal number"))
            }
        }
    };
    let Field { text, line } = field("EPOCH")?;
    let epoch = Utc::instant(text).ok_or_else(|| {
        let message = format!("`EPOCH` = `{}` is no instant from 1957 to 2200", clip(text));
        ElementsError::new(*line, message, "write it as 2024-05-01T12:00:00.0")
    })?;
    let given = |key: &str| record.fields.get(key).map(|field| field.text.clone());
    Ok(Elements {
        name: given("OBJECT_NAME").or_else(|| given("NORAD_CAT_ID")).unwrap_or_else(|| format!("line {}", record.line)),
        launched: given("OBJECT_ID").as_deref().and_then(launch),
        epoch,
        inclination_deg: number("INCLINATION", 0.0, 180.0)?,
        raan_deg: number("RA_OF_ASC_NODE", -360.0, 360.0)?,
        eccentricity: number("ECCENTRICITY", 0.0, 0.999)?,
        perigee_deg: number("ARG_OF_PERICENTER", -360.0, 360.0)?,
        anomaly_deg: number("MEAN_ANOMALY", -360.0, 360.0)?,
        revolutions_per_day: number("MEAN_MOTION", 0.01, 18.0)?,
        bstar: if record.fields.contains_key("BSTAR") { number("BSTAR", -10.0, 10.0)? } else { 0.0 },
        grid: None,
    })
}

/// At most forty characters of what was read, so that an error stays one line.
fn clip(text: &str) -> String {
    text.chars().take(40).filter(|c| !c.is_control()).collect()
}

const TLE_LENGTH: usize = 69;
/// All objects of the catalogue as XML have some 60 MB.
const LARGEST: usize = 1 << 27;
const MEANT: &str = "check that this is the file you meant";
