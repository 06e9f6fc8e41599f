//! A link with slots: the keys of its rate and losses, their reading, and what reports say of them. Delays: `slot_delay.rs`.

use std::sync::Arc;

use perigee_link::{
    BusyHours, DelaySpec, Grants, LinkSpec, LogNormal, LossSpec, RateSpec, Shaping, SlotClock, SlotLoss, SlotOutage,
    SlotRate,
};
use perigee_text::{key, required, Form, Key, Kind, Node, Process, Read, Reader, Section, StrictError};
use perigee_units::{Rate, Ratio, Time};

use super::process::{
    inside, process, table_of, ANY_RATE, ANY_TIME, DELAY_VALUE, INTERVAL, LEAST_RATE, LONG_INTERVAL, MEDIAN, MEMORY,
    MOST_INTERVAL, MOST_RATE, SIGMA,
};

pub(crate) const TIME_OF_DAY: Key = process(
    "time_of_day",
    &TIMES_OF_DAY,
    "For processes with slots: the time of day (UTC) at which a run begins, which says where in a slot and in which \
     hours that is. Not given: drawn per run, the same for all links.",
);

pub(super) static TIMES_OF_DAY: Process =
    Process { name: "time_of_day", plain: Some(&TIME_IN_DAY), forms: &[], is_list: false };

pub(super) static SLOT_RATE: Section = Section {
    name: "rate, slots",
    keys: &[
        required("mean", ANY_RATE, "Mean over slots, before `min` and `max` cut it."),
        required("sd", ANY_RATE, "Standard deviation between slots."),
        required("min", ANY_RATE, "A slot is never slower."),
        required("max", ANY_RATE, "A slot is never faster."),
        MEMORY,
        key(
            "ripple",
            Kind::Share,
            "0 %",
            "Standard deviation from step to step within a slot, as a share of its rate.",
        ),
        key("every", INTERVAL, "20 ms", "Length of a step."),
        process("grants", &GRANTS, "Bursts that carry the capacity, as a MAC grants it. Not given: it is continuous."),
        process("outage", &OUTAGES, "Time without capacity at the begin of a slot; packets wait."),
        key(
            "mood",
            Kind::Share,
            "0 %",
            "Standard deviation of the hours' means, as a share of `mean`: each full hour of the day has a value, \
             straight lines join them. Both directions have the same.",
        ),
        process("busy", &BUSY, "Hours of the day with less capacity."),
        process("shaping", &SHAPINGS, "A time of the run with less capacity."),
        LONG_PERIOD,
        PHASE,
    ],
};
static GRANTS: Process =
    Process { name: "grants", plain: None, forms: &[Form { kind: None, section: &GRANT }], is_list: false };
static GRANT: Section = Section {
    name: "grants of a slot",
    keys: &[
        required(
            "every",
            Kind::Time { min: LEAST_FRAME, max: MOST_INTERVAL },
            "Length of a frame, at most that of a step. The first begins at the end of the outage. Each has one \
             burst, at a uniform place within it, that carries what the link can send during the frame.",
        ),
        required(
            "burst",
            Kind::Time { min: LEAST_BURST, max: MOST_INTERVAL },
            "Length of a burst. Packets wait for it; the wait of a lone packet is (every - burst)^2 x 7/12 / every \
             on average.",
        ),
    ],
};
static OUTAGES: Process =
    Process { name: "outage", plain: None, forms: &[Form { kind: None, section: &OUTAGE }], is_list: false };
static OUTAGE: Section = Section {
    name: "outage of a slot",
    keys: &[
        required("length", Kind::Process(&PER_SLOT), "How long."),
        key("rise", ANY_TIME, "0 s", "Time in which the rate then rises in a straight line to that of the slot."),
        key(
            "both",
            Kind::Bool,
            "false",
            "Both directions of the link have the same length, where both have outages of this `length`.",
        ),
    ],
};
static BUSY: Process =
    Process { name: "busy", plain: None, forms: &[Form { kind: None, section: &BUSY_HOURS }], is_list: false };
static BUSY_HOURS: Section = Section {
    name: "busy hours",
    keys: &[
        required("from", TIME_IN_DAY, "Begin, time of day (UTC)."),
        required("to", TIME_IN_DAY, "End, time of day; before the begin: on the next day."),
        required("share", Kind::Share, "What is left of the capacity."),
        key(
            "ramp",
            Kind::Time { min: Time::ZERO, max: MOST_RAMP },
            "1 h",
            "Time over which it falls, centred on the begin, and rises, centred on the end.",
        ),
    ],
};
static SHAPINGS: Process =
    Process { name: "shaping", plain: None, forms: &[Form { kind: None, section: &SHAPING }], is_list: false };
static SHAPING: Section = Section {
    name: "shaping",
    keys: &[
        required("after", ANY_TIME, "Its begin, since the run began."),
        required("length", LONG_INTERVAL, "How long."),
        required("share", Kind::Share, "What is left of the capacity."),
        key(
            "every",
            LONG_INTERVAL,
            "",
            "Time after which it begins anew: the interval of a campaign's transfers, so that it counts from the \
             begin of each. Not given: once in a run.",
        ),
    ],
};

pub(super) static SLOT_LOSS: Section = Section {
    name: "loss, slots",
    keys: &[
        key("before", ANY_TIME, "0 s", "How long before the begin of a slot they begin."),
        required("after", ANY_TIME, "How long after it they end."),
        key("share", Kind::Share, "100 %", "Share of the slots that have them."),
        key("loss", Kind::Share, "100 %", "Loss during one, of each packet by itself."),
        LONG_PERIOD,
        PHASE,
    ],
};

pub(super) static PER_SLOT: Process = Process {
    name: "per_slot",
    plain: Some(&ANY_TIME),
    forms: &[Form { kind: None, section: &LOG_NORMAL_PER_SLOT }],
    is_list: false,
};
static LOG_NORMAL_PER_SLOT: Section =
    Section { name: "value per slot", keys: &[MEDIAN, SIGMA, required("max", DELAY_VALUE, "Never more.")] };

pub(super) const PERIOD: Key = key(
    "period",
    Kind::Time { min: Time::from_millis(100), max: MINUTE },
    "15 s",
    "Length of a slot; a minute has a whole number of them.",
);
/// Slots of processes without orbits may also be longer.
pub(super) const LONG_PERIOD: Key = key(
    "period",
    Kind::Time { min: Time::from_millis(100), max: HOUR },
    "15 s",
    "Length of a slot: a minute has a whole number of them, or it is a whole number of minutes that divides an hour.",
);
pub(super) const PHASE: Key = key(
    "phase",
    Kind::Time { min: Time::ZERO, max: MINUTE },
    "12 s",
    "Where in a minute, or in an hour if slots are longer, one of them begins. 15 s from 12 s on: at seconds 12, 27, 42, 57.",
);
/// A frame of a MAC, and the burst within it, last longer.
const LEAST_FRAME: Time = Time::from_micros(100);
const LEAST_BURST: Time = Time::from_micros(1);
const TIME_IN_DAY: Kind = Kind::Time { min: Time::ZERO, max: DAY };
const MINUTE: Time = Time::from_secs(60);
const HOUR: Time = Time::from_secs(3600);
const DAY: Time = Time::from_secs(86_400);
/// Maximum time over which busy hours begin.
const MOST_RAMP: Time = Time::from_secs(6 * 3600);

pub(super) fn slot_rate(table: &Reader<'_>) -> Result<RateSpec, StrictError> {
    let clock = clock(table)?;
    let every = table.get("every")?;
    let max: Rate = table.table.require_in("max", LEAST_RATE..=MOST_RATE)?;
    let min: Rate = table.table.require_in("min", LEAST_RATE..=max)?;
    let spec = SlotRate {
        clock,
        mean: table.table.require_in("mean", min..=max)?,
        sd: table.table.require_in("sd", Rate::ZERO..=max)?,
        min,
        max,
        memory: table.get("memory")?,
        every,
        ripple: table.get("ripple")?,
        grants: inside(table, "grants", |node, what| grants(node, what, every))?,
        outage: inside(table, "outage", |node, what| outage(node, what, clock.period))?,
        mood: table.get("mood")?,
        busy: inside(table, "busy", busy)?,
        shaping: inside(table, "shaping", shaping)?,
    };
    Ok(RateSpec::Slots(Arc::new(spec)))
}

fn grants(node: &Node, what: &str, step: Time) -> Result<Grants, StrictError> {
    let (_, table) = table_of(&GRANTS, node, what)?;
    let grants = Grants { every: table.get("every")?, burst: table.get("burst")? };
    if grants.every > step {
        let message = format!("a frame of {} is longer than a step of {step}", grants.every);
        return Err(table.error(
            "every",
            message,
            "shorten it, or lengthen `every` of the rate: a frame has the rate of one step",
        ));
    }
    if grants.burst > grants.every {
        let message = format!("a burst of {} does not fit into a frame of {}", grants.burst, grants.every);
        return Err(table.error("burst", message, "make it at most as long as `every`"));
    }
    Ok(grants)
}

fn outage(node: &Node, what: &str, period: Time) -> Result<SlotOutage, StrictError> {
    let (_, table) = table_of(&OUTAGES, node, what)?;
    let outage = SlotOutage { length: per_slot(&table, "length")?, rise: table.get("rise")?, both: table.get("both")? };
    fits(&table, "length", outage.length.max + outage.rise, period)?;
    Ok(outage)
}

fn busy(node: &Node, what: &str) -> Result<BusyHours, StrictError> {
    let (_, table) = table_of(&BUSY, node, what)?;
    let hours = BusyHours {
        from: table.get("from")?,
        to: table.get("to")?,
        share: table.get("share")?,
        ramp: table.get("ramp")?,
    };
    let length = (hours.to.as_nanos() + DAY.as_nanos() - hours.from.as_nanos()) % DAY.as_nanos();
    let ramp = hours.ramp.as_nanos();
    if ramp > length || length + ramp > DAY.as_nanos() {
        let message = format!("busy hours of {} do not go with a ramp of {}", Time::from_nanos(length), hours.ramp);
        return Err(table.error(
            "ramp",
            message,
            "shorten the ramp, so that it fits into them and into the other hours",
        ));
    }
    Ok(hours)
}

fn shaping(node: &Node, what: &str) -> Result<Shaping, StrictError> {
    let (_, table) = table_of(&SHAPINGS, node, what)?;
    let shaping = Shaping {
        after: table.get("after")?,
        length: table.get("length")?,
        share: table.get("share")?,
        every: table.table.get("every")?,
    };
    if let Some(every) = shaping.every.filter(|every| *every < shaping.after + shaping.length) {
        let message =
            format!("shaping that ends {} after its begin is not over after {every}", shaping.after + shaping.length);
        return Err(table.error("every", message, "make `every` at least `after` and `length` together"));
    }
    Ok(shaping)
}

pub(super) fn slot_loss(table: &Reader<'_>) -> Result<LossSpec, StrictError> {
    let clock = clock(table)?;
    let (before, after): (Time, Time) = (table.get("before")?, table.get("after")?);
    fits(table, "after", before + after, clock.period)?;
    if before + after == Time::ZERO {
        let message = format!("`{}` and `before` are zero, so nothing is lost", table.dotted("after"));
        return Err(table.error("after", message, "make one of them longer"));
    }
    Ok(LossSpec::Slots(SlotLoss { clock, before, after, share: table.get("share")?, loss: table.get("loss")? }))
}

/// Sets the time of day at which a run begins in processes with slots.
pub(super) fn begin_at(spec: &mut LinkSpec, table: &Reader<'_>, time_of_day: Option<Time>) -> Result<(), StrictError> {
    if time_of_day.is_none() {
        return Ok(());
    }
    let mut clocks: Vec<&mut SlotClock> = Vec::new();
    if let RateSpec::Slots(rate) = &mut spec.rate {
        clocks.push(&mut Arc::make_mut(rate).clock);
    }
    match &mut spec.delay {
        DelaySpec::Slots(delay) => clocks.push(&mut Arc::make_mut(delay).clock),
        DelaySpec::Orbit(delay) => clocks.push(&mut Arc::make_mut(delay).clock),
        _ => {}
    }
    clocks.extend(spec.loss.iter_mut().filter_map(|loss| match loss {
        LossSpec::Slots(slots) => Some(&mut slots.clock),
        _ => None,
    }));
    if clocks.is_empty() {
        let message = format!("`{}` is given, and nothing here has slots", table.dotted("time_of_day"));
        return Err(table.error(
            "time_of_day",
            message,
            "remove it, or give the rate, delay or loss `kind = \"slots\"`, or the delay `kind = \"orbit\"`",
        ));
    }
    for clock in clocks {
        clock.time_of_day = time_of_day;
    }
    Ok(())
}

pub(super) fn clock(table: &Reader<'_>) -> Result<SlotClock, StrictError> {
    let period: Time = table.get("period")?;
    let is_long = period > MINUTE
        && period.as_nanos().is_multiple_of(MINUTE.as_nanos())
        && HOUR.as_nanos().is_multiple_of(period.as_nanos());
    if !MINUTE.as_nanos().is_multiple_of(period.as_nanos()) && !is_long {
        let message = format!("slots of {period} do not divide a minute");
        let fix = "use one that does, such as 10 s, 15 s or 20 s: slots begin at the same seconds of each minute";
        return Err(table.error("period", message, fix));
    }
    Ok(SlotClock { period, phase: table.get("phase")?, time_of_day: None })
}

/// A value that is drawn per slot; a single value is the same in all slots.
pub(super) fn per_slot(table: &Reader<'_>, key: &str) -> Result<LogNormal, StrictError> {
    inside(table, key, log_normal)?.ok_or_else(|| table.table.missing(key))
}

pub(super) fn log_normal(node: &Node, what: &str) -> Result<LogNormal, StrictError> {
    let Some((_, table)) = PER_SLOT.open(node, what)? else {
        return Ok(LogNormal::constant(Time::read(node, what)?));
    };
    let max: Time = table.get("max")?;
    Ok(LogNormal { median: table.table.require_in("median", Time::ZERO..=max)?, sigma: table.get("sigma")?, max })
}

/// Refuses a `length` around the start of a slot that reaches the next one.
pub(super) fn fits(table: &Reader<'_>, key: &str, length: Time, period: Time) -> Result<(), StrictError> {
    if length < period {
        return Ok(());
    }
    let message = format!("what happens at the begin of a slot takes up to {length}, and a slot has {period}");
    Err(table.error(key, message, "shorten it: it is over before the next slot begins"))
}

/// The rate of slots in words.
pub(super) fn rate_in_words(slots: &SlotRate) -> String {
    let SlotRate { clock, mean, sd, min, max, memory, every, ripple, grants, outage, mood, busy, shaping } = slots;
    let mut words = vec![
        format!("{}: mean {mean}, sd {sd}, {min} to {max}, memory {memory}", clock_in_words(clock)),
        format!("within a slot sd {ripple} each {every}"),
    ];
    words.extend(grants.map(|Grants { every, burst }| format!("in bursts of {burst}, one each {every}")));
    words.extend(outage.map(|outage| {
        let both = if outage.both { " in both directions" } else { "" };
        format!(
            "each begins with {}{both} without capacity, then rises over {}",
            per_slot_in_words(&outage.length),
            outage.rise
        )
    }));
    words.extend((*mood > Ratio::ZERO).then(|| format!("hours with a standard deviation of {mood}")));
    words.extend(busy.map(|busy| format!("{} of it from {} to {} of the day", busy.share, busy.from, busy.to)));
    words.extend(shaping.map(|Shaping { after, length, share, every }| {
        let anew = every.map_or_else(String::new, |every| format!(", anew each {every}"));
        format!("{share} of it for {length} from {after} on{anew}")
    }));
    words.join("; ")
}

/// When slots begin, in words.
pub(super) fn clock_in_words(clock: &SlotClock) -> String {
    let when = clock.time_of_day.map_or_else(|| "drawn per run".to_owned(), |time| time.to_string());
    format!("slots of {} from second {} of a minute, time of day {when}", clock.period, clock.phase.as_secs_f64())
}

pub(super) fn per_slot_in_words(value: &LogNormal) -> String {
    if value.sigma == 0.0 {
        return value.median.min(value.max).to_string();
    }
    format!("{} (log-normal, sigma {}, at most {})", value.median, value.sigma, value.max)
}

/// The losses of slots in words.
pub(super) fn loss_in_words(slots: &SlotLoss) -> String {
    let SlotLoss { clock, before, after, share, loss } = slots;
    format!("{loss} from {before} before to {after} after the begin of {share} of the {}", clock_in_words(clock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_link_spec;

    const RATE: &str =
        "kind = \"slots\", mean = \"200 Mbit/s\", sd = \"40 Mbit/s\", min = \"80 Mbit/s\", max = \"320 Mbit/s\"";

    fn read(text: &str) -> Result<LinkSpec, String> {
        let tree = perigee_text::parse(text, "f.toml").map_err(|e| e.to_string())?;
        read_link_spec(&tree, "", &mut |_| Err("no files".to_owned())).map_err(|e| e.to_string())
    }

    /// A link whose rate has further keys.
    fn rate(keys: &str) -> Result<LinkSpec, String> {
        read(&format!("rate = {{ {RATE}{keys} }}\ndelay = \"1 ms\""))
    }

    fn delay(keys: &str) -> Result<LinkSpec, String> {
        read(&format!(
            "rate = \"1 Mbit/s\"\ndelay = {{ kind = \"slots\", mean = \"10 ms\", sd = \"1 ms\", max = \"20 ms\"{keys} }}"
        ))
    }

    fn loss(keys: &str) -> Result<LinkSpec, String> {
        read(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nloss = [\"1 %\", {{ kind = \"slots\", {keys} }}]"))
    }

    #[test]
    fn slots_begin_at_seconds_12_27_42_and_57_where_nothing_else_is_said() {
        let RateSpec::Slots(spec) = rate("").unwrap().rate else { panic!("slots") };
        let clock = SlotClock { period: Time::from_secs(15), phase: Time::from_secs(12), time_of_day: None };
        assert_eq!(spec.clock, clock);
        assert_eq!((spec.every, spec.outage, spec.busy, spec.shaping), (Time::from_millis(20), None, None, None));
    }

    #[test]
    fn the_time_of_day_of_a_link_is_that_of_all_its_processes() {
        let text = format!(
            "rate = {{ {RATE} }}\ntime_of_day = \"18.5 h\"\n\
             delay = {{ kind = \"slots\", mean = \"10 ms\", sd = \"1 ms\", \
             spikes = [{{ length = \"9 ms\", height = \"8 ms\", before = \"1 ms\" }}] }}\n\
             loss = {{ kind = \"slots\", after = \"100 ms\" }}"
        );
        let spec = read(&text).unwrap();
        let (RateSpec::Slots(rate), DelaySpec::Slots(delay), [LossSpec::Slots(loss)]) =
            (&spec.rate, &spec.delay, &spec.loss[..])
        else {
            panic!("{spec:?}")
        };
        let at = Some(Time::from_secs(66_600));
        assert_eq!([rate.clock.time_of_day, delay.clock.time_of_day, loss.clock.time_of_day], [at; 3]);
        assert_eq!(delay.spikes[0].before, Time::from_millis(1));
        let plain = LogNormal { median: Time::from_millis(9), sigma: 0.0, max: Time::from_millis(9) };
        assert_eq!(delay.spikes[0].length, plain, "a plain time is the same in all slots");
    }

    #[test]
    fn each_mistake_in_slots_names_its_line_and_its_fix() {
        let of = |read: Result<LinkSpec, String>| read.unwrap_err();
        assert_eq!(
            of(rate(", period = \"14 s\"")),
            "f.toml:1: slots of 14 s do not divide a minute; use one that does, such as 10 s, 15 s or 20 s: slots \
             begin at the same seconds of each minute"
        );
        assert!(of(delay(", period = \"7 s\"")).starts_with("f.toml:2: slots of 7 s do not divide a minute"));
        assert!(of(loss("after = \"1 s\", period = \"90 s\""))
            .starts_with("f.toml:3: slots of 90 s do not divide a minute"));
        assert!(
            of(loss("after = \"1 s\", period = \"2 h\"")).contains("out of range; use a value from 100 ms to 3600 s")
        );
        assert!(loss("after = \"1 s\", period = \"3 min\"").is_ok());
        assert!(
            of(delay(", jitter = { body = { kind = \"normal\", sd = \"-1 ms\" } }")).contains("`delay.jitter.body.sd`")
        );
        assert!(of(rate(", ripple = \"-3 %\"")).contains("`rate.ripple`"));
        assert!(of(rate(", ripple = \"120 %\"")).contains("`rate.ripple`"));
        let outage = |keys: &str| of(rate(&format!(", outage = {{ {keys} }}")));
        assert_eq!(
            outage("length = \"14 s\", rise = \"2 s\""),
            "f.toml:1: what happens at the begin of a slot takes up to 16 s, and a slot has 15 s; shorten it: it is \
             over before the next slot begins"
        );
        assert_eq!(outage("rise = \"2 s\""), "f.toml:1: `rate.outage.length` is missing; add `length = ...` here");
        assert!(outage("length = { median = \"2 s\", sigma = 1, max = \"1 s\" }")
            .contains("`rate.outage.length.median` = 2 s"));
        assert!(of(rate(", busy = { from = \"18 h\", to = \"25 h\", share = \"50 %\" }")).contains("`rate.busy.to`"));
        assert_eq!(
            of(rate(", busy = { from = \"23 h\", to = \"1 h\", share = \"50 %\", ramp = \"3 h\" }")),
            "f.toml:1: busy hours of 7200 s do not go with a ramp of 10800 s; shorten the ramp, so that it fits into \
             them and into the other hours"
        );
        assert_eq!(
            of(rate(", shaping = { after = \"50 s\", length = \"210 s\", share = \"50 %\", every = \"100 s\" }")),
            "f.toml:1: shaping that ends 260 s after its begin is not over after 100 s; make `every` at least `after` and `length` together"
        );
        assert!(of(rate(", mood = \"-1 %\"")).contains("`rate.mood`"));
        let grants = |keys: &str| of(rate(&format!(", grants = {{ {keys} }}")));
        assert_eq!(
            grants("every = \"4 ms\", burst = \"5 ms\""),
            "f.toml:1: a burst of 5 ms does not fit into a frame of 4 ms; make it at most as long as `every`"
        );
        assert_eq!(
            grants("every = \"40 ms\", burst = \"5 ms\""),
            "f.toml:1: a frame of 40 ms is longer than a step of 20 ms; shorten it, or lengthen `every` of the rate: \
             a frame has the rate of one step"
        );
        assert_eq!(grants("every = \"4 ms\""), "f.toml:1: `rate.grants.burst` is missing; add `burst = ...` here");
        assert!(grants("every = \"4 ms\", burst = \"0 ms\"").contains("`rate.grants.burst`"));
        assert!(grants("every = \"4\", burst = \"1 ms\"").contains("`rate.grants.every`"));
        assert!(grants("every = \"4 ms\", burst = \"1 ms\", gap = \"3 ms\"").contains("`rate.grants.gap`"));
        let spike = |keys: &str| of(delay(&format!(", spikes = {{ height = \"9 ms\", {keys} }}")));
        assert_eq!(
            spike("length = \"9 ms\", after = \"1 ms\", before = \"1 ms\""),
            "f.toml:2: `delay.spikes.before` stands beside `after`; keep one of them: a spike has one begin"
        );
        assert!(spike("length = \"9 ms\", peak = \"120 %\"").contains("`delay.spikes.peak`"));
        assert!(spike("length = \"9 ms\", begin = \"9 ms\"").contains("`delay.spikes.begin`"));
        assert!(spike("length = \"9 s\", after = \"6 s\"").contains("takes up to 15 s"));
        assert!(of(delay(", min = \"11 ms\""))
            .contains("`delay.mean` = 10 ms is out of range; use a value from 11 ms to 20 ms"));
        assert_eq!(
            of(loss("after = \"0 s\"")),
            "f.toml:3: `loss.after` and `before` are zero, so nothing is lost; make one of them longer"
        );
        assert!(of(loss("before = \"9 s\", after = \"8 s\"")).contains("takes up to 17 s"));
        assert_eq!(
            read("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\ntime_of_day = \"1 h\"").unwrap_err(),
            "f.toml:3: `time_of_day` is given, and nothing here has slots; remove it, or give the rate, delay or \
             loss `kind = \"slots\"`, or the delay `kind = \"orbit\"`"
        );
        assert!(read(&format!("rate = {{ {RATE} }}\ndelay = \"1 ms\"\ntime_of_day = \"25 h\""))
            .unwrap_err()
            .contains("`time_of_day`"));
    }
}
