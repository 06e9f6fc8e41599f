//! Files of elements: two-line elements (TLE), and orbit mean-elements messages (OMM, CCSDS 502.0-B) as JSON, XML, KVN or CSV.

use std::collections::{BTreeMap, BTreeSet};

use crate::elements::{Elements, ElementsError};
use crate::records::{comma_separated, json, key_values, xml, Field, RawElements};
use crate::satellite::Satellite;
use crate::walker::Constellation;
use crate::Utc;

/// A satellite as it was read: its line, and its number in the catalogue.
struct Listed {
    elements: Elements,
    line: u32,
    number: Option<u32>,
}

/// Reads all satellites of a file. Its format is recognised by how it begins: `[` or `{` is JSON, `<` XML, a `1` that a
/// line of two-line elements begins with is TLE, a first line with commas CSV, and a line with `=` KVN. Satellites with one name have their
/// number behind it.
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
/// let satellites = perigee_orbit::read_elements(text.as_bytes()).unwrap().satellites;
/// assert_eq!((satellites[0].name.as_str(), satellites[0].launched), ("ISS (ZARYA)", Some(1_998_067)));
/// assert_eq!(satellites[0].epoch.to_string(), "2020-07-12T21:16:01.000");
/// ```
pub fn read_elements(bytes: &[u8]) -> Result<Constellation, ElementsError> {
    if bytes.len() > LARGEST {
        let message = format!("{} bytes are more than a file of elements may have ({LARGEST})", bytes.len());
        return Err(ElementsError::new(1, message, MEANT));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let lines = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count();
        ElementsError::new(lines as u32 + 1, "not a text file", MEANT)
    })?;
    let mut notes = Vec::new();
    let mut listed = match text.trim_start().chars().next() {
        None => return Err(ElementsError::new(1, "the file has no elements", MEANT)),
        Some('[' | '{') => of_records(&json(text)?)?,
        Some('<') => of_records(&xml(text)?)?,
        Some(_) if text.lines().any(|line| is_tle(line, '1')) => two_line(text, &mut notes)?,
        Some(_) if text.lines().next().is_some_and(|line| line.contains("MEAN_MOTION") && line.contains(',')) => {
            of_records(&comma_separated(text)?)?
        }
        Some(_) if text.lines().any(|line| line.contains('=')) => of_records(&key_values(text)?)?,
        Some(_) => return Err(no_elements(text)),
    };
    check(&listed)?;
    let mut numbers: BTreeMap<String, BTreeSet<Option<u32>>> = BTreeMap::new();
    for one in &listed {
        numbers.entry(one.elements.name.clone()).or_default().insert(one.number);
    }
    for one in listed.iter_mut().filter(|one| numbers[&one.elements.name].len() > 1) {
        if let Some(number) = one.number {
            one.elements.name = format!("{} ({number})", one.elements.name);
        }
    }
    Ok(Constellation { satellites: listed.into_iter().map(|one| one.elements).collect(), shells: Vec::new(), notes })
}

/// Says what a file without elements is.
fn no_elements(text: &str) -> ElementsError {
    let said = clip(text.trim());
    if said.eq_ignore_ascii_case("No GP data found") {
        let message = format!("the server found no data: it answered `{said}`");
        return ElementsError::new(1, message, "ask for another group, name or number");
    }
    let quoted = if text.trim().lines().count() == 1 { format!("; it says `{said}`") } else { String::new() };
    let message = format!("neither two-line elements nor an orbit mean-elements message{quoted}");
    ElementsError::new(1, message, "give a file of two-line elements, or an OMM as JSON, XML, KVN or CSV")
}

/// Whether all are orbits, and none is there twice.
fn check(listed: &[Listed]) -> Result<(), ElementsError> {
    let mut known = BTreeMap::new();
    for Listed { elements, line, number } in listed {
        if Satellite::new(elements).is_none() {
            let message = format!("the elements of {} are of no orbit that SGP4 knows", elements.name);
            return Err(ElementsError::new(*line, message, "check mean motion and eccentricity, or remove them"));
        }
        if let Some(first) = known.insert((&elements.name, number, elements.epoch), line) {
            let message = format!("{} is there twice, first in line {first}", elements.name);
            return Err(ElementsError::new(*line, message, "remove one of them"));
        }
    }
    Ok(())
}

fn is_tle(line: &str, number: char) -> bool {
    let mut letters = line.chars();
    letters.next() == Some(number) && letters.next() == Some(' ') && line.trim_end().len() > TLE_LENGTH / 2
}

/// Two-line elements, with or without a line of the name before them.
fn two_line(text: &str, notes: &mut Vec<String>) -> Result<Vec<Listed>, ElementsError> {
    let lines = text.lines().enumerate().map(|(i, line)| (i as u32 + 1, line.trim_end()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let (mut satellites, mut unchecked) = (Vec::new(), 0);
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
        unchecked += [line, second].iter().filter(|line| line.len() == TLE_LENGTH - 1).count();
        satellites.push(of_lines(name.take(), (at, line), (at_second, second))?);
    }
    if unchecked > 0 {
        notes.push(format!("{unchecked} lines of the elements have no checksum; they were read as they stand"));
    }
    let newest = satellites.iter().map(|one| one.elements.epoch).max();
    let has_large = satellites.iter().any(|one| one.number >= Some(FIRST_WITHOUT_PLACE));
    if !has_large && Utc::day(FULL_SINCE).is_some_and(|full| newest >= Some(full)) {
        notes.push(format!(
            "two-line elements have no place for satellites catalogued since {FULL_SINCE} (numbers from {FIRST_WITHOUT_PLACE} on), \
             which this file lacks; take the OMM of the same source, as CSV or JSON"
        ));
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

fn of_lines(name: Option<&str>, first: (u32, &str), second: (u32, &str)) -> Result<Listed, ElementsError> {
    let number = first.1.get(2..7).and_then(catalogue_number);
    let [line_1, line_2] = [checked(first)?, checked(second)?];
    let read = sgp4::Elements::from_tle(name.map(str::to_owned), line_1.as_bytes(), line_2.as_bytes());
    let read = read.map_err(|error| {
        let message = error.to_string();
        let at = if message.contains("line 2") { second.0 } else { first.0 };
        ElementsError::new(at, message, "take the lines as they were published")
    })?;
    let epoch = Utc::of(read.datetime).ok_or_else(|| {
        ElementsError::new(first.0, format!("the epoch is {}", read.datetime), "use elements of 1957 to 2200")
    })?;
    let unnamed = || number.map_or_else(|| clip(&first.1[2..7]), |number| number.to_string());
    let elements = Elements {
        name: read.object_name.filter(|name| !name.is_empty()).unwrap_or_else(unnamed),
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
    };
    Ok(Listed { elements, line: first.0, number })
}

/// A line with its checksum, which is added where it is missing; a number with a letter, which SGP4's reader does not take, is left out.
fn checked((at, line): (u32, &str)) -> Result<String, ElementsError> {
    let length = line.len();
    if !(TLE_LENGTH - 1..=TLE_LENGTH).contains(&length) || !line.is_ascii() {
        let message = format!("{length} characters, where a line of two-line elements has {TLE_LENGTH}");
        return Err(ElementsError::new(at, message, "take the lines as they were published"));
    }
    let sum_of = |line: &str| -> u32 {
        line[..TLE_LENGTH - 1].chars().map(|c| if c == '-' { 1 } else { c.to_digit(10).unwrap_or(0) }).sum::<u32>() % 10
    };
    let sum = sum_of(line);
    if length == TLE_LENGTH && line.chars().last().and_then(|c| c.to_digit(10)) != Some(sum) {
        let message = format!("the checksum is {sum}, and the line has {}", &line[TLE_LENGTH - 1..]);
        return Err(ElementsError::new(at, message, "take the line as it was published"));
    }
    let has_letter = line.as_bytes()[2].is_ascii_alphabetic();
    let body = if has_letter {
        format!("{}00000{}", &line[..2], &line[7..TLE_LENGTH - 1])
    } else {
        line[..TLE_LENGTH - 1].to_owned()
    };
    let sum = sum_of(&body);
    Ok(format!("{body}{sum}"))
}

/// A number of five characters, the first of which may be a letter for 10 to 33, without I and O (Alpha-5).
fn catalogue_number(text: &str) -> Option<u32> {
    let (first, rest) = (text.chars().next()?, text.get(1..)?);
    if !first.is_ascii_uppercase() {
        return text.trim().parse().ok();
    }
    let place = "ABCDEFGHJKLMNPQRSTUVWXYZ".find(first)? as u32;
    Some((10 + place) * 10_000 + rest.parse::<u32>().ok()?)
}

/// Year and number of a launch from a designator: `1998-067A` in an OMM, which SGP4's reader makes of `98067A` too.
fn launch(designator: &str) -> Option<u32> {
    let (year, rest) = designator.trim().split_once('-')?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let (year, number): (u32, u32) = (year.parse().ok()?, number.parse().ok()?);
    ((1957..2200).contains(&year) && number < 1000).then_some(year * 1000 + number)
}

fn of_records(records: &[RawElements]) -> Result<Vec<Listed>, ElementsError> {
    if records.is_empty() {
        return Err(ElementsError::new(1, "the file has no elements", MEANT));
    }
    let number = |record: &RawElements| record.fields.get("NORAD_CAT_ID").and_then(|field| field.text.parse().ok());
    let listed =
        |record: &RawElements| Ok(Listed { elements: of_record(record)?, line: record.line, number: number(record) });
    records.iter().map(listed).collect()
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
    let given =
        |key: &str| record.fields.get(key).map(|field| field.text.clone()).filter(|text| !text.trim().is_empty());
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
/// The first number of the catalogue with six digits, and the day from which new satellites have such.
const FIRST_WITHOUT_PLACE: u32 = 100_000;
const FULL_SINCE: &str = "2026-07-11";
/// All objects of the catalogue as XML have some 60 MB.
const LARGEST: usize = 1 << 27;
const MEANT: &str = "check that this is the file you meant";
