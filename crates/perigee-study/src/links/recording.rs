//! A recorded link, and the text of its files.

use std::fmt::Write;

use perigee_link::{Course, LinkSpec, Steps};
use perigee_units::{Rate, Time};

use super::trace::{DELAY_LINE, MAX_TRACE};

/// One direction of a recorded link, as far as its files say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedLink {
    /// Rate.
    pub rate: Option<Steps<Rate>>,
    /// One-way delay.
    pub delay: Option<Steps<Time>>,
}

/// Files, and what they leave out or change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Names and texts.
    pub files: Vec<(String, String)>,
    /// Sentences for people.
    pub notes: Vec<String>,
}

impl RecordedLink {
    /// A direction of a link without traffic: mean rates of milliseconds, and delays each 10 ms. Where it has no path, the delay is that of
    /// the path before it. `None` for a TDMA channel, whose rate follows requests.
    pub fn over_time(spec: &LinkSpec, seed: u64, name: &str, length: Time) -> Option<Self> {
        let Course { rates, delays } = Course::new(spec, seed, name, [MILLISECOND, DELAY_LINE], length)?;
        let end = MILLISECOND * rates.len() as u64;
        let rates = (0..).zip(rates).map(|(number, rate)| (MILLISECOND * number, rate));
        let delay = delays.iter().flatten().next().copied().and_then(|first| {
            let mut last = first;
            let end = DELAY_LINE * delays.len() as u64;
            let held = (0..).zip(delays).map(|(number, delay)| {
                last = delay.unwrap_or(last);
                (DELAY_LINE * number, last)
            });
            Steps::new(held, Some(end))
        });
        Some(Self { rate: Steps::new(rates, Some(end)), delay })
    }
}

impl Written {
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<(), String> {
        if text.len() > MAX_TRACE {
            return Err(format!(
                "`{name}` would be longer than a recording may be ({MAX_TRACE} bytes); write less time"
            ));
        }
        self.files.push((name.to_owned(), text));
        Ok(())
    }

    /// Adds a rate as opportunities of `bytes`; what is left of one at a millisecond's end counts in the next.
    pub(super) fn add_rate(&mut self, name: &str, rate: &Steps<Rate>, bytes: u64) -> Result<(), String> {
        let (mut text, mut last) = (String::new(), 0);
        let opportunity = u128::from(bytes * 8) * 1_000_000_000;
        let (mut work, mut end_ms) = (0_u128, 0);
        for (from, to, rate) in segments(rate) {
            if rate == Rate::UNLIMITED {
                return Err(
                    "the rate is unlimited at times, and a trace counts packets; give the link a rate".to_owned()
                );
            }
            let mut at = from;
            while at < to {
                // Without a rate nothing is due but what the millisecond before has left.
                let is_idle = rate == Rate::ZERO && work < opportunity;
                let until = if is_idle { to } else { Time::from_millis(at.as_millis() + 1).min(to) };
                work += u128::from(rate.as_bps()) * u128::from((until - at).as_nanos());
                at = until;
                if at.as_nanos() % 1_000_000 == 0 {
                    let now = at.as_millis();
                    end_ms = now;
                    while work >= opportunity {
                        let _ = writeln!(text, "{now}");
                        work -= opportunity;
                        last = now;
                    }
                    if text.len() > MAX_TRACE {
                        return self.add(name, text);
                    }
                }
            }
        }
        if text.is_empty() {
            return Err("the rate is too low for a single packet in that time; write more time".to_owned());
        }
        if last < end_ms {
            self.notes.push(format!(
                "`{name}` ends after {last} ms, with its last packet, and not after {end_ms} ms: such a trace has no other end"
            ));
        }
        self.add(name, text)
    }

    /// Adds lines with the delay at the begin of each 10 ms, in whole milliseconds; `line` writes one, given both in ms. With `end`, a
    /// last line has the end of the recording and the last delay.
    pub(super) fn add_delay(
        &mut self,
        name: &str,
        delay: &Steps<Time>,
        end: bool,
        line: impl Fn(&mut String, u64, u64),
    ) -> Result<(), String> {
        let whole = |number: u64| (delay.at(DELAY_LINE * number).as_nanos() + 500_000) / 1_000_000;
        let lines = end_of(delay).as_nanos().div_ceil(DELAY_LINE.as_nanos());
        let mut text = String::new();
        for number in 0..lines {
            line(&mut text, (DELAY_LINE * number).as_millis(), whole(number));
            if text.len() > MAX_TRACE {
                return self.add(name, text);
            }
        }
        if end {
            line(&mut text, (DELAY_LINE * lines).as_millis(), whole(lines - 1));
        }
        if delay.iter().any(|(_, delay)| delay.as_nanos() % 1_000_000 != 0) {
            self.notes.push(format!("the delays of `{name}` are rounded to milliseconds"));
        }
        self.add(name, text)
    }
}

/// A timeline with a row for each change; a parameter that ends earlier begins anew.
pub(super) fn timeline_text(link: &RecordedLink) -> Result<String, String> {
    let RecordedLink { rate, delay } = link;
    if segments_of(rate.as_ref()).any(|(_, _, rate)| rate == Rate::UNLIMITED) {
        return Err("the rate is unlimited at times, and a timeline has numbers; give the link a rate".to_owned());
    }
    let end = rate.as_ref().map(end_of).into_iter().chain(delay.as_ref().map(end_of)).max().unwrap_or_default();
    let rows = repeated(rate.as_ref(), end).saturating_add(repeated(delay.as_ref(), end));
    if rows > MAX_TRACE as u64 / LEAST_ROW {
        return Err(format!("the timeline would have {rows} rows, more than a recording may have; write less time"));
    }
    let mut changes: Vec<Time> = starts(rate.as_ref(), end).chain(starts(delay.as_ref(), end)).collect();
    changes.sort_unstable();
    changes.dedup();
    let columns = [rate.as_ref().map(|_| "rate_bps"), delay.as_ref().map(|_| "delay_us")];
    let mut text = format!("time_ms,{}\n", columns.into_iter().flatten().collect::<Vec<_>>().join(","));
    for at in changes {
        let _ = write!(text, "{}", at.as_nanos() as f64 / 1e6);
        if let Some(rate) = rate {
            let _ = write!(text, ",{}", rate.at(at).as_bps());
        }
        if let Some(delay) = delay {
            let _ = write!(text, ",{}", delay.at(at).as_nanos() as f64 / 1e3);
        }
        text.push('\n');
    }
    Ok(text)
}

/// The number of steps of a recording that repeats until `end`.
fn repeated<T: Copy + PartialEq>(steps: Option<&Steps<T>>, end: Time) -> u64 {
    steps.map_or(0, |steps| steps.iter().count() as u64 * end.as_nanos().div_ceil(end_of(steps).as_nanos()))
}

/// The begins of the steps of a recording that repeats until `end`.
fn starts<T: Copy + PartialEq>(steps: Option<&Steps<T>>, end: Time) -> impl Iterator<Item = Time> + '_ {
    steps
        .into_iter()
        .flat_map(move |steps| {
            let length = end_of(steps);
            let repeats = end.as_nanos().div_ceil(length.as_nanos());
            (0..repeats).flat_map(move |number| steps.iter().map(move |(start, _)| length * number + start))
        })
        .filter(move |at| *at < end)
}

/// Begin, end and value of each step.
pub(super) fn segments<T: Copy + PartialEq>(steps: &Steps<T>) -> impl Iterator<Item = (Time, Time, T)> + '_ {
    let ends = steps.iter().skip(1).map(|(start, _)| start).chain([end_of(steps)]);
    steps.iter().zip(ends).map(|((start, value), end)| (start, end, value))
}

fn segments_of<T: Copy + PartialEq>(steps: Option<&Steps<T>>) -> impl Iterator<Item = (Time, Time, T)> + '_ {
    steps.into_iter().flat_map(segments)
}

/// The end of a recording, which repeats.
pub(super) fn end_of<T: Copy + PartialEq>(steps: &Steps<T>) -> Time {
    steps.period().unwrap_or_default()
}

/// Mean over time, ms.
pub(super) fn mean_ms(delay: &Steps<Time>) -> f64 {
    let sum: f64 = segments(delay).map(|(from, to, value)| value.as_millis_f64() * (to - from).as_secs_f64()).sum();
    sum / end_of(delay).as_secs_f64()
}

/// Bytes of the shortest row of a timeline.
const LEAST_ROW: u64 = 4;
const MILLISECOND: Time = Time::from_millis(1);
