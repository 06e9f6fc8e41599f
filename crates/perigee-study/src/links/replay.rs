//! How the recordings of a link are replayed: once, in a loop, or in blocks whose order is drawn; one recording or several.
//!
//! Recordings that belong together are cut alike: the first one of the rate and the first one of the delay cover the same time, and so on.
//! So both directions of a link are settled together, after they have been read.

use std::fmt;
use std::sync::Arc;

use perigee_link::{Blocks, DelaySpec, LinkSpec, RateSpec, Steps};
use perigee_text::{
    key, required, Content, Form, Key, Kind, Node, Origin, Process, Read, Reader, Section, StrictError,
};
use perigee_units::{Rate, Time};

use super::process::{process, recording, table_of, Load, ANY_TIME, LONG_INTERVAL};

pub(crate) const REPLAY: Key = process(
    "replay",
    &REPLAYS,
    "How recordings of rate and delay (`trace`) go on: `loop`, from their begin; `stop`, the link carries nothing \
     after their end; or in blocks whose order is drawn. Not given: `loop`.",
);
pub(super) const TRACE: Kind = Kind::Process(&TRACES);

static REPLAYS: Process = Process {
    name: "replay",
    plain: Some(&Kind::Word(&["loop", "stop"])),
    forms: &[Form { kind: Some("bootstrap"), section: &BOOTSTRAP }],
    is_list: false,
};
static TRACES: Process = Process { name: "trace", plain: Some(&Kind::Text), forms: &[], is_list: true };
static BOOTSTRAP: Section = Section {
    name: "replay, bootstrap",
    keys: &[
        required("block", LONG_INTERVAL, "Length of a block: a slot of the recorded link, such as 15 s."),
        key(
            "phase",
            ANY_TIME,
            "0 s",
            "Where the first whole block of each recording begins; what is before it is left out.",
        ),
        key(
            "run",
            Kind::Number { min: 1.0, max: 1000.0 },
            "1",
            "Mean number of successive blocks that stay together; 1: each block is drawn by itself.",
        ),
    ],
};

/// How recordings are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Replay {
    #[default]
    Loop,
    Stop,
    Bootstrap {
        block: Time,
        phase: Time,
        run: f64,
    },
}

impl Replay {
    pub(super) fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let Content::Table(_) = node.content else {
            REPLAYS.open(node, what)?;
            return Ok(if String::read(node, what)? == "stop" { Self::Stop } else { Self::Loop });
        };
        let (_, table) = table_of(&REPLAYS, node, what)?;
        Ok(Self::Bootstrap { block: table.get("block")?, phase: table.get("phase")?, run: table.get("run")? })
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop => f.write_str("in a loop"),
            Self::Stop => f.write_str("once"),
            Self::Bootstrap { block, phase, run } => write!(f, "in blocks of {block} from {phase} on, run {run}"),
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

    /// The blocks of all recordings, each of which has as many as fit its length.
    fn blocks(&self, lengths: &[Time], block: Time, phase: Time, run: f64) -> Option<Blocks<T>> {
        let begins = self.parts.iter().zip(lengths).flat_map(|(steps, length)| {
            (0..whole_blocks(*length, block, phase)).map(move |number| (&**steps, phase + block * number))
        });
        Blocks::new(begins, block, run)
    }

    fn too_short(&self, block: Time, phase: Time) -> StrictError {
        let message = format!("`{}` has no whole block of {block} from {phase} on", self.key);
        StrictError::new(&self.origin, message, "shorten `block`, or lower `phase`")
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

    /// Refuses a block so short that there would be too many.
    fn check_count(&self) -> Result<(), StrictError> {
        let Replay::Bootstrap { block, phase, .. } = self.replay else { return Ok(()) };
        let count: u64 = self.lengths.iter().map(|length| whole_blocks(*length, block, phase)).sum();
        if count <= MAX_BLOCKS {
            return Ok(());
        }
        let message = format!("`{}` has {count} blocks of {block}", self.key);
        Err(self.error(message, &format!("lengthen `block`: up to {MAX_BLOCKS} can be drawn from")))
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
        let Replay::Bootstrap { block, phase, .. } = self.replay else { return Ok(()) };
        for (number, (own, other_length)) in (1..).zip(self.lengths.iter().zip(&first.lengths)) {
            let [blocks, known] = [*own, *other_length].map(|length| whole_blocks(length, block, phase));
            if blocks.abs_diff(known) > 1 {
                let message =
                    format!("recording {number} of `{key}` has {blocks} whole blocks, and that of `{other}` {known}");
                return Err(self.error(message, "check that these recordings are of one time"));
            }
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
                Replay::Bootstrap { block, phase, run } => {
                    let blocks = rate.blocks(lengths, block, phase, run).ok_or_else(|| rate.too_short(block, phase))?;
                    if blocks.steps().iter().all(|(_, rate)| rate == Rate::ZERO) {
                        let message = format!("no whole block of `{}` carries anything", rate.key);
                        return Err(StrictError::new(&rate.origin, message, "choose another `block` or `phase`"));
                    }
                    RateSpec::Blocks(Arc::new(blocks))
                }
                Replay::Loop => RateSpec::Trace(rate.looped(lengths)?),
                Replay::Stop => RateSpec::Trace(rate.once(lengths, |_| Rate::ZERO)?),
            };
        }
        if let Some(delay) = &self.delay {
            spec.delay = match self.replay {
                Replay::Bootstrap { block, phase, run } => {
                    let blocks = delay.blocks(lengths, block, phase, run);
                    DelaySpec::Blocks(Arc::new(blocks.ok_or_else(|| delay.too_short(block, phase))?))
                }
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
    groups.iter().try_for_each(Group::check_count)?;
    let Some(first) = groups.first() else { return Ok(()) };
    let plain = |group: &Group<'_>| group.replay == Replay::Loop && group.lengths.len() == 1;
    if !groups.iter().all(plain) {
        groups.iter().skip(1).try_for_each(|group| group.goes_with(first))?;
    }
    let shortest = |number: usize| groups.iter().filter_map(|group| group.lengths.get(number)).min();
    let lengths: Vec<Time> = (0..first.lengths.len()).filter_map(shortest).copied().collect();
    directions.iter_mut().try_for_each(|(spec, recorded)| recorded.apply(spec, &lengths))
}

/// The number of whole blocks of a recording of some length.
fn whole_blocks(length: Time, block: Time, phase: Time) -> u64 {
    length.checked_sub(phase).unwrap_or_default().as_nanos() / block.as_nanos()
}

/// Most blocks of a link: seventeen days in slots of 15 s.
const MAX_BLOCKS: u64 = 100_000;

/// Blocks in words.
pub(super) fn blocks_in_words<T: Copy + PartialEq>(blocks: &Blocks<T>) -> String {
    let run = match blocks.run() {
        1.0 => "each drawn by itself".to_owned(),
        run => format!("on average {run} in the recorded order"),
    };
    format!("recorded, {} blocks of {}, {run}", blocks.count(), blocks.length())
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
    fn blocks_are_whole_slots_from_the_phase_on_of_all_recordings() {
        let replay = "replay = { kind = \"bootstrap\", block = \"20 ms\", phase = \"15 ms\", run = 2.5 }";
        let link = link(&format!(
            "rate = {{ trace = [\"b100\", \"b55\"] }}\ndelay = {{ trace = [\"d90\", \"d60\"] }}\n{replay}"
        ));
        let link = link.unwrap();
        let (RateSpec::Blocks(rate), DelaySpec::Blocks(delay)) = (&link.down.rate, &link.down.delay) else { panic!() };
        // 75 ms and 40 ms are left of the shorter ones.
        assert_eq!((rate.count(), delay.count()), (5, 5));
        assert_eq!((rate.length(), rate.run()), (ms(20), 2.5));
        assert_eq!([59, 60, 99].map(|t| delay.steps().at(ms(t))), [90, 60, 60].map(ms));
        assert_eq!(blocks_in_words(delay), "recorded, 5 blocks of 20 ms, on average 2.5 in the recorded order");
    }

    #[test]
    fn both_directions_have_the_same_number_of_blocks() {
        let directions = "[down]\nrate = { trace = \"b100\" }\ndelay = \"1 ms\"\nreplay = { kind = \"bootstrap\", block = \"20 ms\" }\n\
                          [up]\nrate = \"1 Mbit/s\"\ndelay = { trace = \"d80\" }\nreplay = { kind = \"bootstrap\", block = \"20 ms\" }\n";
        let counts = |directions: &str| {
            profile(directions).map(|link| match (&link.down.rate, &link.up.delay) {
                (RateSpec::Blocks(rate), DelaySpec::Blocks(delay)) => (rate.count(), delay.count()),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(counts(&directions.replace("d80", "d120")), Ok((5, 5)));
        assert_eq!(
            counts(directions).unwrap_err(),
            "f.toml:5: no whole block of `down.rate.trace` carries anything; choose another `block` or `phase`"
        );
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
            "f.toml:7: `down.replay` cannot be `often`; use one of loop, stop, { kind = \"bootstrap\" }"
        );
        assert_eq!(
            message("rate = { trace = [\"b10\", \"b20\"] }\ndelay = { trace = \"d10\" }"),
            "f.toml:6: `down.delay.trace` has 1 recordings, and `down.rate.trace` has 2; give each the same number: \
             recordings of one time belong together"
        );
        let bootstrap = |keys: &str| format!("replay = {{ kind = \"bootstrap\", {keys} }}");
        assert_eq!(
            message(&format!("{rate}\ndelay = \"1 ms\"\n{}", bootstrap("phase = \"1 s\""))),
            "f.toml:7: `down.replay.block` is missing; add `block = ...` here"
        );
        assert_eq!(
            message(&format!("{rate}\ndelay = \"1 ms\"\n{}", bootstrap("block = \"15\""))),
            "f.toml:7: `down.replay.block`: `15` has no unit; write \"15 ms\""
        );
        assert_eq!(
            message(&format!("{rate}\ndelay = \"1 ms\"\n{}", bootstrap("block = \"15 s\", phase = \"40 ms\""))),
            "f.toml:5: `down.rate.trace` has no whole block of 15 s from 40 ms on; shorten `block`, or lower `phase`"
        );
        assert_eq!(
            message(&format!(
                "rate = {{ trace = \"b2592000000\" }}\ndelay = \"1 ms\"\n{}",
                bootstrap("block = \"15 ms\"")
            )),
            "f.toml:5: `down.rate.trace` has 172800000 blocks of 15 ms; lengthen `block`: up to 100000 can be drawn from"
        );
        assert!(message(&format!("{rate}\ndelay = \"1 ms\"\n{}", bootstrap("block = \"20 ms\", run = 0.5")))
            .contains("`down.replay.run` = 0.5 is out of range"));
        assert_eq!(
            message(&format!("{rate}\ndelay = {{ trace = \"d40\" }}\n{}", bootstrap("block = \"20 ms\""))),
            "f.toml:6: recording 1 of `down.delay.trace` has 2 whole blocks, and that of `down.rate.trace` 5; check \
             that these recordings are of one time"
        );
        let other = format!("[down]\n{rate}\ndelay = \"1 ms\"\nreplay = \"stop\"\n[up]\n{rate}\ndelay = \"1 ms\"\n");
        assert_eq!(
            profile(&other).unwrap_err(),
            "f.toml:9: `up.rate.trace` is replayed in a loop, and `down.rate.trace` once; give both directions the same `replay`"
        );
    }
}
