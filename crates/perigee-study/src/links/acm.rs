//! Keys, fade files and reading of adaptive coding and modulation.

use std::sync::Arc;

use perigee_link::{Acm, LossSpec, RainFade, RateSpec, Steps};
use perigee_text::{clip, key, required, Key, Kind, Origin, Reader, Section, StrictError};
use perigee_units::Time;

use super::process::{recording, Load, MOST_INTERVAL};
use super::trace::{empty, text_lines};

/// Modulation by a fade from a file.
pub(super) static ACM_FILE: Section = Section {
    name: "rate, acm along a file",
    keys: &[
        required(
            "fade",
            Kind::Text,
            "A file of comma-separated values with the columns `time_s` or `time_ms`, and `attenuation_db` or \
             `es_n0_db`. Each row holds until the next, the last one for ever.",
        ),
        key("clear_sky_db", DECIBEL, "", "Es/N0 without attenuation; needed with `attenuation_db`."),
        SYMBOL_RATE,
        MODCODS,
        MARGIN,
        HYSTERESIS,
        SIGNALLING,
    ],
};
/// Modulation by synthetic rain.
pub(super) static ACM_RAIN: Section = Section {
    name: "rate, acm through rain",
    keys: &[
        required(
            "median_db",
            Kind::Number { min: 0.001, max: 100.0 },
            "Median of the log-normal attenuation, before the offset.",
        ),
        required("sigma", Kind::Number { min: 0.0, max: 5.0 }, "Standard deviation of its logarithm."),
        key(
            "rain",
            Kind::Share,
            "100 %",
            "Share of the time with any attenuation: what is exceeded for longer is taken off as an offset (ITU-R \
             P.1853).",
        ),
        key(
            "memory",
            Kind::Time { min: Time::from_secs(1), max: Time::from_secs(30 * 86_400) },
            "5000 s",
            "Time in which the autocorrelation falls to 1/e.",
        ),
        key(
            "length",
            Kind::Time { min: Time::from_secs(1), max: Time::from_secs(86_400) },
            "3600 s",
            "How long it changes; its last value holds from there on.",
        ),
        key(
            "seed",
            Kind::Integer { min: 0, max: u32::MAX as u64 },
            "1",
            "Seed of the fade, which is the same in all rounds.",
        ),
        required("clear_sky_db", DECIBEL, "Es/N0 without attenuation."),
        SYMBOL_RATE,
        MODCODS,
        MARGIN,
        HYSTERESIS,
        SIGNALLING,
    ],
};

const SYMBOL_RATE: Key = required(
    "symbol_rate_mbaud",
    Kind::Number { min: 0.01, max: 10_000.0 },
    "Symbol rate, millions per second. The bit rate is that times the spectral efficiency of the MODCOD of DVB-S2 \
     or DVB-S2X (EN 302 307).",
);
const MODCODS: Key = key(
    "modcods",
    Kind::Word(&[DVB_S2, DVB_S2X]),
    DVB_S2,
    "The MODCODs that both modems know: those of EN 302 307-1, or those of EN 302 307-2 beside them.",
);
const MARGIN: Key = key(
    "margin_db",
    Kind::Number { min: 0.0, max: 20.0 },
    "0.5",
    "By how much the Es/N0 has to exceed the threshold of a MODCOD for it to be chosen.",
);
const HYSTERESIS: Key =
    key("hysteresis_db", Kind::Number { min: 0.0, max: 20.0 }, "0.3", "By how much more for a change to a faster one.");
const SIGNALLING: Key = key(
    "signalling",
    Kind::Time { min: Time::ZERO, max: MOST_INTERVAL },
    "600 ms",
    "From a change of the signal to the MODCOD that answers it; what is too fast for the signal until then is lost.",
);
const DVB_S2: &str = "dvb-s2";
const DVB_S2X: &str = "dvb-s2x";
const DECIBEL: Kind = Kind::Number { min: LEAST_DB, max: MOST_DB };
const LEAST_DB: f64 = -100.0;
const MOST_DB: f64 = 100.0;

/// The rate, and the loss of packets that are sent too fast.
pub(super) fn acm(table: &Reader<'_>, load: &mut Load<'_>) -> Result<(RateSpec, LossSpec), StrictError> {
    let signal = if table.table.has("fade") { along_file(table, load)? } else { through_rain(table)? };
    let modem = Acm {
        symbols_per_s: table.get::<f64>("symbol_rate_mbaud")? * 1e6,
        extended: table.get::<String>("modcods")? == DVB_S2X,
        margin_db: table.get("margin_db")?,
        hysteresis_db: table.get("hysteresis_db")?,
        delay: table.get("signalling")?,
    };
    let (rate, loss) = modem.follow(&signal);
    Ok((RateSpec::Trace(Arc::new(rate)), LossSpec::Trace(Arc::new(loss))))
}

/// The Es/N0 over time from a file, dB.
fn along_file(table: &Reader<'_>, load: &mut Load<'_>) -> Result<Steps<f64>, StrictError> {
    let clear_sky: Option<f64> = table.table.get("clear_sky_db")?;
    let (is_attenuation, fade) = recording(table, "fade", &table.get::<String>("fade")?, load, fade)?;
    match (is_attenuation, clear_sky) {
        (false, None) => Ok(fade),
        (true, Some(clear_sky)) => Ok(attenuated(clear_sky, &fade)),
        (true, None) => Err(table.table.missing("clear_sky_db")),
        (false, Some(_)) => {
            let message = format!("`{}` stands beside a file that has the Es/N0 itself", table.dotted("clear_sky_db"));
            Err(table.error("clear_sky_db", message, "remove it"))
        }
    }
}

fn through_rain(table: &Reader<'_>) -> Result<Steps<f64>, StrictError> {
    let rain = RainFade {
        median_db: table.get("median_db")?,
        sigma: table.get("sigma")?,
        rain: table.get("rain")?,
        memory: table.get("memory")?,
    };
    Ok(attenuated(table.get("clear_sky_db")?, &rain.attenuation_db(table.get("seed")?, table.get("length")?)))
}

fn attenuated(clear_sky: f64, attenuation: &Steps<f64>) -> Steps<f64> {
    let values = attenuation.iter().map(|(at, db)| (at, clear_sky - db));
    // The instants are valid, as they are those of a fade.
    Steps::new(values, None).unwrap_or_else(|| Steps::constant(clear_sky))
}

/// Reads a fade: whether it is an attenuation (or else the Es/N0), and its values, dB.
fn fade(bytes: &[u8], file: &str) -> Result<(bool, Steps<f64>), StrictError> {
    let error = |line: u32, message: String, fix: &str| StrictError::new(&Origin::line(file, line), message, fix);
    let mut rows = text_lines(bytes, file)?.filter(|(_, text)| !text.starts_with('#'));
    let (line, header) = rows.next().ok_or_else(|| empty(file))?;
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let [time @ ("time_s" | "time_ms"), value @ ("attenuation_db" | "es_n0_db")] = columns[..] else {
        let message = format!("the columns are `{}`", clip(header));
        return Err(error(line, message, "write `time_s` or `time_ms`, then `attenuation_db` or `es_n0_db`"));
    };
    let (ns, is_attenuation) = (if time == "time_s" { 1e9 } else { 1e6 }, value == "attenuation_db");
    let mut points: Vec<(Time, f64)> = Vec::new();
    for (line, row) in rows {
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        let [time, value] = fields[..] else {
            let message = format!("{} columns where the header has 2", fields.len());
            return Err(error(line, message, "give each row one value per column"));
        };
        let number = |field: &str, least: f64, most: f64| match field.parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            Ok(number) => {
                Err(error(line, format!("{number} is out of range"), &format!("use a value from {least} to {most}")))
            }
            Err(_) if field.is_empty() => {
                Err(error(line, "a value is missing".to_owned(), "fill the hole, or leave out the row"))
            }
            Err(_) => Err(error(line, format!("`{}` is not a number", clip(field)), "write a decimal number")),
        };
        let at = Time::from_nanos((number(time, 0.0, MOST_S * 1e9 / ns)? * ns).round() as u64);
        match points.last() {
            None if at != Time::ZERO => {
                return Err(error(line, format!("the fade begins at {at}"), "give its first row the time 0"));
            }
            Some((last, _)) if at <= *last => {
                return Err(error(line, format!("{at} comes after {last}"), "let the time rise from row to row"));
            }
            _ => points.push((at, number(value, if is_attenuation { 0.0 } else { LEAST_DB }, MOST_DB)?)),
        }
    }
    Ok((is_attenuation, Steps::new(points, None).ok_or_else(|| empty(file))?))
}

/// Latest time of a fade: thirty days, s.
const MOST_S: f64 = 30.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fade_is_an_attenuation_or_the_signal_itself() {
        let (is_attenuation, steps) = fade(b"# rain\ntime_s,attenuation_db\n0,0\n2.5, 6\n", "f.csv").unwrap();
        assert!(is_attenuation);
        assert!((steps.at(Time::from_secs(3)) - 6.0).abs() < 1e-9);
        let (is_attenuation, steps) = fade(b"time_ms,es_n0_db\n0,-3\n", "f.csv").unwrap();
        assert!(!is_attenuation && (steps.at(Time::ZERO) + 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_wrong_with_a_fade_is_said_with_its_line() {
        let message = |text: &str| fade(text.as_bytes(), "f.csv").unwrap_err().to_string();
        assert_eq!(message(""), "f.csv:1: the recording is empty; check that this is the file you meant");
        assert_eq!(
            message("time_s,db\n0,1\n"),
            "f.csv:1: the columns are `time_s,db`; write `time_s` or `time_ms`, then `attenuation_db` or `es_n0_db`"
        );
        let rows = |rows: &str| message(&format!("time_s,attenuation_db\n{rows}\n"));
        assert_eq!(rows("0,1\n1,"), "f.csv:3: a value is missing; fill the hole, or leave out the row");
        assert_eq!(rows("0,1\n2,1\n1,1"), "f.csv:4: 1 s comes after 2 s; let the time rise from row to row");
        assert_eq!(rows("1,1"), "f.csv:2: the fade begins at 1 s; give its first row the time 0");
        assert_eq!(rows("0,-1"), "f.csv:2: -1 is out of range; use a value from 0 to 100");
        assert_eq!(rows("0,x"), "f.csv:2: `x` is not a number; write a decimal number");
        assert_eq!(rows("0,1,2"), "f.csv:2: 3 columns where the header has 2; give each row one value per column");
        assert!(rows("0,nan").contains("out of range"));
        assert!(rows("").contains("empty"));
    }
}
