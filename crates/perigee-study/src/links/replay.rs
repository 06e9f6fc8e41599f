//! How the recordings of a link are replayed: once or in a loop; one recording or several.
//!
//! Recordings that belong together are cut alike: the first one of the rate and the first one of the delay cover the same time, and so on.
//! So both directions of a link are settled together, after they have been read.

use std::fmt;
use std::sync::Arc;

use perigee_link::{DelaySpec, LinkSpec, RateSpec, Steps};
use perigee_text::{Content, Key, Kind, Node, Origin, Process, Read, Reader, StrictError};
use perigee_units::{Rate, Time};

use super::process::{process, recording, Load};

pub(crate) const REPLAY: Key = process(
    "replay",
    &REPLAYS,
    "How recordings of rate and delay (`trace`) go on: `loop`, from their begin; `stop`, the link carries nothing \
     after their end. Not given: `loop`.",
);
pub(super) const TRACE: Kind = Kind::Process(&TRACES);

static REPLAYS: Process =
    Process { name: "replay", plain: Some(&Kind::Word(&["loop", "stop"])), forms: &[], is_list: false };
static TRACES: Process = Process { name: "trace", plain: Some(&Kind::Text), forms: &[], is_list: true };
/// How recordings are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Replay {
    #[default]
    Loop,
    Stop,
}

impl Replay {
    pub(super) fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        REPLAYS.open(node, what)?;
        Ok(if String::read(node, what)? == "stop" { Self::Stop } else { Self::Loop })
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop => f.write_str("in a loop"),
            Self::Stop => f.write_str("once"),
        }
    }
}

/// Recordings of one process, in the order in which they are written.
#[derive(Clone, Debug)]
pub(super) struct Recordings<T> {
    parts: Vec<Arc<Steps<T>>>,
    /// Where they are written, and the key, for messages.
    origin: Origin,
    key: String,
}

/// The recordings of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    rate: Option<Recordings<Rate>>,
    delay: Option<Recordings<Time>>,
    replay: Replay,
}

impl<T: Copy + PartialEq> Recordings<T> {
    /// Those under `trace`: one, or an array.
    pub(super) fn read(
        table: &Reader<'_>,
        load: &mut Load<'_>,
        read: impl Fn(&[u8], &str) -> Result<Steps<T>, StrictError>,
    ) -> Result<Self, StrictError> {
        let node = table.table.node("trace").ok_or_else(|| table.table.missing("trace"))?;
        let key = table.dotted("trace");
        let nodes = match &node.content {
            Content::Array(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.is_empty() {
            return Err(table.error("trace", format!("`{key}` names no recording"), "give it the path of one"));
        }
        let parts =
            nodes.iter().map(|node| recording(table, "trace", &String::read(node, &key)?, load, &read).map(Arc::new));
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, origin: node.origin.clone(), key })
    }

    /// The recordings one after the other, each for its length; one alone keeps its own.
    fn looped(&self, lengths: &[Time]) -> Result<Arc<Steps<T>>, StrictError> {
        if let [alone] = &self.parts[..] {
            return Ok(alone.clone());
        }
        let pieces = self.parts.iter().zip(lengths).map(|(steps, length)| (&**steps, Time::ZERO, *length));
        Steps::join(pieces, true).map(Arc::new).ok_or_else(|| {
            let message = format!("a recording of `{}` is empty", self.key);
            StrictError::new(&self.origin, message, "remove it")
        })
    }

    /// The recordings once, and then `last`.
    fn once(&self, lengths: &[Time], last: impl Fn(&Steps<T>) -> T) -> Result<Arc<Steps<T>>, StrictError> {
        let steps = Arc::unwrap_or_clone(self.looped(lengths)?);
        let last = last(&steps);
        Ok(Arc::new(steps.then(last)))
    }

    /// Returns them as a group beside other replays.
    fn group(&self, replay: Replay) -> Group<'_> {
        let lengths = self.parts.iter().map(|steps| steps.period().unwrap_or_default()).collect();
        Group { lengths, replay, origin: &self.origin, key: &self.key }
    }
}

/// The lengths of recordings, and how they are replayed.
struct Group<'a> {
    lengths: Vec<Time>,
    replay: Replay,
    origin: &'a Origin,
    key: &'a str,
}

impl Group<'_> {
    fn error(&self, message: String, fix: &str) -> StrictError {
        StrictError::new(self.origin, message, fix)
    }

    /// Why these recordings cannot be replayed beside the first ones of a link.
    fn goes_with(&self, first: &Self) -> Result<(), StrictError> {
        let (key, other) = (self.key, first.key);
        if self.replay != first.replay {
            let message = format!("`{key}` is replayed {}, and `{other}` {}", self.replay, first.replay);
            return Err(self.error(message, "give both directions the same `replay`"));
        }
        let (count, known) = (self.lengths.len(), first.lengths.len());
        if count != known {
            let message = format!("`{key}` has {count} recordings, and `{other}` has {known}");
            return Err(self.error(message, "give each the same number: recordings of one time belong together"));
        }
        Ok(())
    }
}

impl Recorded {
    /// The recordings of a direction; `replay` is the node of that key. Recordings without a rule for their end are looped.
    pub(super) fn new(
        table: &Reader<'_>,
        rate: Option<Recordings<Rate>>,
        delay: Option<Recordings<Time>>,
    ) -> Result<Self, StrictError> {
        let replay = match table.table.node("replay") {
            Some(_) if rate.is_none() && delay.is_none() => {
                let message = format!("`{}` is given, and nothing here is recorded", table.dotted("replay"));
                return Err(table.error("replay", message, "remove it, or give the rate or the delay a `trace`"));
            }
            Some(node) => Replay::read(node, &table.dotted("replay"))?,
            None => Replay::Loop,
        };
        Ok(Self { rate, delay, replay })
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let rate = self.rate.as_ref().map(|rate| rate.group(self.replay));
        rate.into_iter().chain(self.delay.as_ref().map(|delay| delay.group(self.replay)))
    }

    /// Sets rate and delay of a direction to what its recordings are over time, each cut to its length.
    fn apply(&self, spec: &mut LinkSpec, lengths: &[Time]) -> Result<(), StrictError> {
        if let Some(rate) = &self.rate {
            spec.rate = match self.replay {
                Replay::Loop => RateSpec::Trace(rate.looped(lengths)?),
                Replay::Stop => RateSpec::Trace(rate.once(lengths, |_| Rate::ZERO)?),
            };
        }
        if let Some(delay) = &self.delay {
            spec.delay = match self.replay {
                Replay::Loop => DelaySpec::Trace(delay.looped(lengths)?),
                Replay::Stop => DelaySpec::Trace(delay.once(lengths, Steps::last)?),
            };
        }
        Ok(())
    }
}

/// Sets rates and delays of a direction, or of both directions of a link, to what their recordings are over time.
pub(super) fn settle(directions: &mut [(&mut LinkSpec, &Recorded)]) -> Result<(), StrictError> {
    let groups: Vec<Group<'_>> = directions.iter().flat_map(|(_, recorded)| recorded.groups()).collect();
    let Some(first) = groups.first() else { return Ok(()) };
    let plain = |group: &Group<'_>| group.replay == Replay::Loop && group.lengths.len() == 1;
    if !groups.iter().all(plain) {
        groups.iter().skip(1).try_for_each(|group| group.goes_with(first))?;
    }
    let shortest = |number: usize| groups.iter().filter_map(|group| group.lengths.get(number)).min();
    let lengths: Vec<Time> = (0..first.lengths.len()).filter_map(shortest).copied().collect();
    directions.iter_mut().try_for_each(|(spec, recorded)| recorded.apply(spec, &lengths))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::profile::{parse, Profile};

    const HEAD: &str = "name = \"n\"\ntitle = \"t\"\nsource = \"s\"\n";

    /// A profile whose recordings `bN` and `dN` last N ms; a rate has one opportunity at its end, a delay is N ms.
    fn profile(directions: &str) -> Result<Profile, String> {
        let mut load = |name: &str| {
            let length = name[1..].parse::<usize>().map_err(|_| "no such file".to_owned())?;
            Ok(match &name[..1] {
                "b" => format!("{length}\n").into_bytes(),
                _ => format!("{length}\n").repeat(length / 10).into_bytes(),
            })
        };
        parse(&format!("{HEAD}{directions}"), "f.toml", &mut load).map_err(|error| error.to_string())
    }

    fn link(keys: &str) -> Result<Profile, String> {
        profile(&format!("[link]\n{keys}\n"))
    }

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    #[test]
    fn several_recordings_follow_each_other_each_cut_to_the_shorter_of_its_pair() {
        let keys = "rate = { trace = [\"b100\", \"b57\"] }\ndelay = { trace = [\"d90\", \"d60\"] }";
        let link = link(keys).unwrap();
        let (RateSpec::Trace(rate), DelaySpec::Trace(delay)) = (&link.down.rate, &link.down.delay) else { panic!() };
        assert_eq!((rate.period(), delay.period()), (Some(ms(147)), Some(ms(147))));
        assert_eq!([0, 89, 90, 146, 147].map(|t| delay.at(ms(t))), [90, 90, 60, 60, 90].map(ms));
        // The opportunity of the first one is in the part that is cut.
        let busy: Vec<u64> = (0..147).filter(|t| rate.at(ms(*t)) > Rate::ZERO).collect();
        assert_eq!(busy, [146]);
    }

    #[test]
    fn one_recording_keeps_its_own_length_in_a_loop() {
        let link = link("rate = { trace = \"b95\" }\ndelay = { trace = [\"d90\"] }\nreplay = \"loop\"").unwrap();
        let (RateSpec::Trace(rate), DelaySpec::Trace(delay)) = (&link.down.rate, &link.down.delay) else { panic!() };
        assert_eq!((rate.period(), delay.period()), (Some(ms(95)), Some(ms(90))));
    }

    #[test]
    fn a_link_that_stops_carries_nothing_after_its_recording_and_keeps_its_last_delay() {
        let link = link("rate = { trace = \"b40\" }\ndelay = { trace = \"d40\" }\nreplay = \"stop\"").unwrap();
        let (RateSpec::Trace(rate), DelaySpec::Trace(delay)) = (&link.up.rate, &link.up.delay) else { panic!() };
        assert_eq!([39, 40, 9_999].map(|t| rate.at(ms(t)).as_bps()), [12_000_000, 0, 0]);
        assert_eq!((rate.period(), delay.at(ms(9_999))), (None, ms(40)));
        assert_eq!(link.up.dark_times(1, "l", ms(60)), [(ms(0), ms(39)), (ms(40), ms(60))]);
    }

    #[test]
    fn each_mistake_in_recordings_names_its_line_and_its_fix() {
        let message = |keys: &str| link(keys).unwrap_err();
        let rate = "rate = { trace = \"b100\" }";
        assert_eq!(
            message("rate = { trace = [] }\ndelay = \"1 ms\""),
            "f.toml:5: `down.rate.trace` names no recording; give it the path of one"
        );
        assert_eq!(
            message("rate = { trace = [\"b10\", \"none\"] }\ndelay = \"1 ms\""),
            "f.toml:5: cannot read `none`: no such file; check the path"
        );
        assert_eq!(
            message("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nreplay = \"loop\""),
            "f.toml:7: `down.replay` is given, and nothing here is recorded; remove it, or give the rate or the delay a `trace`"
        );
        assert_eq!(
            message(&format!("{rate}\ndelay = \"1 ms\"\nreplay = \"lop\"")),
            "f.toml:7: `down.replay` cannot be `lop`; did you mean `loop`?"
        );
        assert_eq!(
            message(&format!("{rate}\ndelay = \"1 ms\"\nreplay = \"often\"")),
            "f.toml:7: `down.replay` cannot be `often`; use one of loop, stop"
        );
        assert_eq!(
            message("rate = { trace = [\"b10\", \"b20\"] }\ndelay = { trace = \"d10\" }"),
            "f.toml:6: `down.delay.trace` has 1 recordings, and `down.rate.trace` has 2; give each the same number: \
             recordings of one time belong together"
        );
        let other = format!("[down]\n{rate}\ndelay = \"1 ms\"\nreplay = \"stop\"\n[up]\n{rate}\ndelay = \"1 ms\"\n");
        assert_eq!(
            profile(&other).unwrap_err(),
            "f.toml:9: `up.rate.trace` is replayed in a loop, and `down.rate.trace` once; give both directions the same `replay`"
        );
    }
}
