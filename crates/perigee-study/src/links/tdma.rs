//! A TDMA channel with bandwidth on demand: its keys, their reading, and what reports say of it.

use perigee_link::{Follows, Requests, TdmaSpec, TerminalOf};
use perigee_text::{key, required, Kind, Reader, Section, StrictError};
use perigee_units::{Bytes, Rate, Ratio, Time};

use super::process::{ANY_RATE, ANY_TIME, MOST_INTERVAL};

pub(super) static TDMA: Section = Section {
    name: "rate, tdma",
    keys: &[
        required(
            "superframe",
            Kind::Time { min: Time::from_millis(1), max: MOST_INTERVAL },
            "How long a burst time plan holds.",
        ),
        key(
            "multiframes",
            COUNT,
            "1",
            "Multi-frames in a super-frame. Capacity is granted in units of one slot in each of them.",
        ),
        required("slots", COUNT, "Slots of a multi-frame, those of all carriers together."),
        key("carriers", COUNT, "1", "Carriers side by side; a terminal sends on one at a time."),
        required(
            "payload",
            Kind::Size { min: Bytes::new(1), max: Bytes::new(1 << 20) },
            "What a slot carries, in bytes of packets with `overhead`.",
        ),
        key(
            "slow_payload",
            Kind::Size { min: Bytes::new(1), max: Bytes::new(1 << 20) },
            "",
            "What a slot carries while its terminal has only its `fixed` units, and is on a slower carrier: more is \
             requested as soon as that does not suffice. Not given: `payload`.",
        ),
        key("guard", ANY_TIME, "0 s", "Time at the end of a slot in which nothing is sent."),
        key(
            "clock",
            Kind::Text,
            "",
            "Name of the clock: super-frames of channels with the same clock begin at the same instants, as those of \
             the two directions of a mesh. Not given: a clock of the direction's own.",
        ),
        key(
            "place",
            Kind::Integer { min: 0, max: MOST },
            "0",
            "Place in the multi-frame, in slots, of the first slot of the first terminal.",
        ),
        key("terminals", COUNT, "1", "Terminals on the channel, those of the link among them."),
        key(
            "terminal",
            Kind::Word(&["link", "flow"]),
            "link",
            "`link`: one terminal sends all packets of the link. `flow`: each flow has its own.",
        ),
        key(
            "fixed",
            Kind::Integer { min: 0, max: MOST },
            "0",
            "Units that each terminal has in every super-frame (CRA).",
        ),
        key("most", COUNT, "", "Most units of a terminal. Not given: what the fixed parts of the others leave."),
        key(
            "requests",
            Kind::Word(&["rate", "volume", "both", "none"]),
            "rate",
            "What a terminal requests each super-frame: the rate of the arrivals in the last one (RBDC), the bytes \
             that wait and have no slots yet (VBDC), both, or nothing.",
        ),
        key(
            "drain",
            Kind::Time { min: Time::from_millis(1), max: MOST_INTERVAL },
            "",
            "Time in which a request by rate also drains what waits; below the sum of `processing`, `assignment` and \
             `propagation` grants swing. Not given: it is about arrivals only.",
        ),
        key(
            "memory",
            ANY_TIME,
            "0 s",
            "Time constant of the mean of the arrivals that a request by rate is about, exponentially weighted. \
             Below a super-frame: those of the last one.",
        ),
        key(
            "memory_falling",
            ANY_TIME,
            "",
            "Time constant of that mean while fewer bytes arrive than it, where a terminal gives capacity back slower \
             than it requests more. Not given: that of `memory`.",
        ),
        key("margin", Kind::Share, "0 %", "What a request by rate adds, as a share of the rest of it."),
        key(
            "follows",
            Kind::Word(&["arrivals", "growth"]),
            "arrivals",
            "What a request by rate is about: `arrivals`, those of the last super-frame; `growth`, what left in it and \
             the growth of what waits, so that a queue keeps its rate until it is empty.",
        ),
        key("free", Kind::Bool, "false", "Units that nobody requested are shared among all terminals (FCA)."),
        key("background", ANY_RATE, "0 bit/s", "What each terminal requests through which no flow of the study goes."),
        key(
            "busy",
            ANY_TIME,
            "0 s",
            "Mean time for which such a terminal requests `background` before it pauses, exponentially distributed. \
             0 s: it does not pause.",
        ),
        key("idle", ANY_TIME, "0 s", "Mean time for which it pauses; with `busy`."),
        key(
            "moves",
            Kind::Integer { min: 0, max: MOST },
            "0",
            "Slots by which those of the link's terminals lie later at most, drawn for each super-frame, as plans \
             are laid out anew with the demand of other terminals.",
        ),
        key(
            "processing",
            ANY_TIME,
            "0 s",
            "Part of the time from the end of the interval that a request is about until its plan takes effect: in \
             terminal and control centre.",
        ),
        key("assignment", ANY_TIME, "0 s", "Part of that time: from the decision until the plan takes effect."),
        key("propagation", ANY_TIME, "0 s", "Part of that time: the way of the request and of the plan."),
    ],
};

/// Maximum of slots, terminals and similar counts.
const MOST: u64 = 1 << 20;
const COUNT: Kind = Kind::Integer { min: 1, max: MOST };

/// Reads a channel, and refuses contradictions.
pub(super) fn tdma(table: &Reader<'_>) -> Result<TdmaSpec, StrictError> {
    let requests = match table.get::<String>("requests")?.as_str() {
        "volume" => Requests::Volume,
        "both" => Requests::RateAndVolume,
        "none" => Requests::None,
        _ => Requests::Rate,
    };
    let terminal_of = match table.get::<String>("terminal")?.as_str() {
        "flow" => TerminalOf::Flow,
        _ => TerminalOf::Link,
    };
    let spec = TdmaSpec {
        superframe: table.get("superframe")?,
        multiframes: table.get("multiframes")?,
        slots: table.get("slots")?,
        carriers: table.get("carriers")?,
        payload: table.get("payload")?,
        slow_payload: table.table.get("slow_payload")?,
        guard: table.get("guard")?,
        clock: table.table.get("clock")?,
        place: table.get("place")?,
        terminals: table.get("terminals")?,
        terminal_of,
        fixed: table.get("fixed")?,
        most: table.table.get("most")?,
        requests,
        drain: table.table.get("drain")?,
        memory: table.get("memory")?,
        memory_falling: table.table.get("memory_falling")?,
        margin: table.get("margin")?,
        follows: match table.get::<String>("follows")?.as_str() {
            "growth" => Follows::Growth,
            _ => Follows::Arrivals,
        },
        free: table.get("free")?,
        background: table.get("background")?,
        busy: table.get("busy")?,
        idle: table.get("idle")?,
        moves: table.get("moves")?,
        processing: table.get("processing")?,
        assignment: table.get("assignment")?,
        propagation: table.get("propagation")?,
    };
    check_frame(table, &spec)?;
    check_demand(table, &spec)?;
    check_requests(table, &spec)?;
    check_process(table, &spec)?;
    check_slow_carrier(table, &spec)?;
    Ok(spec)
}

/// A TDMA channel in words.
pub(super) fn in_words(tdma: &TdmaSpec) -> String {
    let requests = match tdma.requests {
        Requests::None => "nothing",
        Requests::Rate => "rates",
        Requests::Volume => "volumes",
        Requests::RateAndVolume => "rates and volumes",
    };
    let clock = tdma.clock.as_ref().map_or_else(String::new, |clock| format!(", by the clock `{clock}`"));
    let free = if tdma.free { ", the rest shared freely" } else { "" };
    let drain = tdma.drain.map_or_else(String::new, |drain| format!(" that drain what waits in {drain}"));
    let memory = match (tdma.memory, tdma.memory_falling) {
        (rising, Some(falling)) => format!(" averaged over {rising} as they rise and {falling} as they fall"),
        (Time::ZERO, None) => String::new(),
        (memory, None) => format!(" averaged over {memory}"),
    };
    let margin = match tdma.margin {
        Ratio::ZERO => String::new(),
        margin => format!(" plus {margin}"),
    };
    let growth = if tdma.follows == Follows::Growth { " of what left and the growth of what waits" } else { "" };
    let background = match (tdma.background, tdma.busy) {
        (Rate::ZERO, _) => String::new(),
        (rate, Time::ZERO) => format!("; the others request {rate} each"),
        (rate, busy) => format!("; the others request {rate} each for {busy} and pause for {} in turn", tdma.idle),
    };
    let slow = tdma.slow_payload.map_or_else(String::new, |_| format!(", {} without other units", tdma.least_rate()));
    let moves = match tdma.moves {
        0 => String::new(),
        moves => format!("; slots lie up to {moves} later by the super-frame"),
    };
    format!(
        "TDMA, {} units of {} per super-frame of {}, at most {}; {} terminals with {} fixed each{slow}, \
         requests of {requests}{growth}{memory}{drain}{margin} \
         granted {} later{free}{background}{moves}{clock}",
        tdma.slots,
        tdma.unit(),
        tdma.superframe,
        tdma.most_rate(),
        tdma.terminals,
        tdma.fixed,
        tdma.allocation_delay(),
    )
}

/// The super-frame has whole slots, each longer than its guard time.
fn check_frame(table: &Reader<'_>, spec: &TdmaSpec) -> Result<(), StrictError> {
    let TdmaSpec { superframe, multiframes, slots, carriers, guard, place, moves, .. } = spec;
    if slots % carriers != 0 {
        let message = format!("{slots} slots cannot be laid on {carriers} carriers alike");
        return Err(table.error("slots", message, "make `slots` a multiple of `carriers`"));
    }
    if *place >= slots / carriers {
        let message = format!("a multi-frame has no place {place}: its {} slots are counted from 0", slots / carriers);
        return Err(table.error("place", message, format!("use a value up to {}", slots / carriers - 1)));
    }
    if *moves >= slots / carriers {
        let message = format!("slots cannot lie {moves} later: a multi-frame has {} in a row", slots / carriers);
        return Err(table.error("moves", message, format!("use a value up to {}", slots / carriers - 1)));
    }
    let in_line = u64::from(*multiframes) * u64::from(slots / carriers);
    let slot = Time::from_nanos(superframe.as_nanos() / in_line);
    if slot < LEAST_SLOT || slot <= *guard {
        let message =
            format!("a super-frame of {superframe} has {in_line} slots one after the other, so each takes {slot}");
        let fix = format!(
            "make it longer than `guard` ({guard}) and at least {LEAST_SLOT}: fewer slots, or a longer super-frame"
        );
        return Err(table.error("superframe", message, fix));
    }
    Ok(())
}

/// Refuses what shapes a request by rate where a terminal makes none.
fn check_requests(table: &Reader<'_>, spec: &TdmaSpec) -> Result<(), StrictError> {
    if matches!(spec.requests, Requests::Rate | Requests::RateAndVolume) {
        return Ok(());
    }
    let usual = TdmaSpec::default();
    let given = [
        ("drain", spec.drain != usual.drain),
        ("memory", spec.memory != usual.memory),
        ("memory_falling", spec.memory_falling != usual.memory_falling),
        ("margin", spec.margin != usual.margin),
        ("follows", spec.follows != usual.follows),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("`{}` is about requests by rate, and terminals make none", table.dotted(key));
            Err(table.error(key, message, "leave it out, or set `requests` to \"rate\" or \"both\""))
        }
    }
}

/// A slower carrier carries less than the others, and carries the fixed units.
fn check_slow_carrier(table: &Reader<'_>, spec: &TdmaSpec) -> Result<(), StrictError> {
    let Some(slow) = spec.slow_payload else { return Ok(()) };
    if slow > spec.payload {
        let message =
            format!("a slot of a slower carrier with {slow} carries more than the {} of the others", spec.payload);
        return Err(table.error("slow_payload", message, "make it at most `payload`"));
    }
    if spec.fixed == 0 {
        let message = "without fixed units there is nothing that a terminal without requests sends in".to_owned();
        return Err(table.error("slow_payload", message, "set `fixed = 1` or more, or leave it out"));
    }
    Ok(())
}

/// Checks the process of the other terminals' demand.
fn check_process(table: &Reader<'_>, spec: &TdmaSpec) -> Result<(), StrictError> {
    if (spec.busy > Time::ZERO) != (spec.idle > Time::ZERO) {
        let message = "a demand that begins and ends takes both of `busy` and `idle`";
        return Err(table.error("busy", message.to_owned(), "give both, or neither"));
    }
    if spec.busy > Time::ZERO && spec.background == Rate::ZERO {
        let message = "the other terminals have nothing to request in their `busy` times";
        return Err(table.error("busy", message.to_owned(), "give `background`, or leave out `busy` and `idle`"));
    }
    Ok(())
}

/// Checks that the fixed parts fit, and that each terminal can get the capacity it requests.
fn check_demand(table: &Reader<'_>, spec: &TdmaSpec) -> Result<(), StrictError> {
    let TdmaSpec { slots, carriers, terminals, fixed, most, requests, .. } = spec;
    if u64::from(*terminals) * u64::from(*fixed) > u64::from(*slots) {
        let message =
            format!("{terminals} terminals with {fixed} fixed units each need more than the {slots} slots there are");
        return Err(table.error(
            "fixed",
            message,
            "lower `fixed` or `terminals`, or give the multi-frame more `slots`",
        ));
    }
    let limit = most.unwrap_or(u32::MAX).min(slots / carriers);
    if *fixed > limit {
        let message = format!("{fixed} fixed units are more than the {limit} that a terminal can have");
        return Err(table.error(
            "fixed",
            message,
            "lower `fixed`, or raise `most`; a terminal sends on one carrier at a time",
        ));
    }
    let why = match requests {
        Requests::None => "a terminal that requests nothing never sends",
        Requests::Rate if spec.drain.is_none() => "what a request by rate leaves over is never requested again",
        _ if spec.background.as_bps() > 0 => {
            "the rates of `background` come before the volumes that a terminal requests"
        }
        _ => return Ok(()),
    };
    if *fixed == 0 && !(spec.free && *requests == Requests::None) {
        let message = format!("without fixed units packets may wait for ever: {why}");
        return Err(table.error("fixed", message, "set `fixed = 1` or more"));
    }
    Ok(())
}

/// Minimum slot: instants in whole nanoseconds would be coarse below it.
const LEAST_SLOT: Time = Time::from_micros(1);

#[cfg(test)]
mod tests {
    use super::super::direction::read_link_spec;
    use perigee_link::{LinkSpec, RateSpec, Requests};
    use perigee_units::Time;

    fn read(channel: &str, beside: &str) -> Result<LinkSpec, String> {
        let text = format!(
            "rate = {{ kind = \"tdma\", superframe = \"820 ms\", payload = \"1 kB\", {channel} }}\n\
            delay = \"270 ms\"\n{beside}"
        );
        let tree = perigee_text::parse(&text, "f.toml").map_err(|e| e.to_string())?;
        read_link_spec(&tree, "", &mut |_| Err("no files".to_owned())).map_err(|e| e.to_string())
    }

    #[test]
    fn a_channel_is_read_with_its_defaults() {
        let spec = read("slots = 48, fixed = 1, terminals = 22, assignment = \"820 ms\"", "queue = \"1 MB\"").unwrap();
        let RateSpec::Tdma(tdma) = spec.rate else { panic!("{:?}", spec.rate) };
        assert_eq!((tdma.slots, tdma.terminals, tdma.requests), (48, 22, Requests::Rate));
        assert_eq!(tdma.allocation_delay(), Time::from_millis(820));
    }

    #[test]
    fn a_channel_that_cannot_be_names_its_line_and_its_fix() {
        let message = |channel: &str| read(channel, "").unwrap_err();
        assert_eq!(
            message("slots = 48, terminals = 22, fixed = 3"),
            "f.toml:1: 22 terminals with 3 fixed units each need more than the 48 slots there are; lower `fixed` or \
             `terminals`, or give the multi-frame more `slots`"
        );
        assert_eq!(
            message("slots = 48, carriers = 5, fixed = 1"),
            "f.toml:1: 48 slots cannot be laid on 5 carriers alike; make `slots` a multiple of `carriers`"
        );
        assert_eq!(
            message("slots = 48, guard = \"20 ms\", fixed = 1"),
            "f.toml:1: a super-frame of 820 ms has 48 slots one after the other, so each takes 17083.333 us; make it \
             longer than `guard` (20 ms) and at least 1 us: fewer slots, or a longer super-frame"
        );
        assert_eq!(
            message("slots = 48, carriers = 24, fixed = 3"),
            "f.toml:1: 3 fixed units are more than the 2 that a terminal can have; lower `fixed`, or raise `most`; a \
             terminal sends on one carrier at a time"
        );
        assert_eq!(
            message("slots = 48"),
            "f.toml:1: without fixed units packets may wait for ever: what a request by rate leaves over is never \
             requested again; set `fixed = 1` or more"
        );
        assert_eq!(
            message("slots = 48, carriers = 2, fixed = 1, place = 24"),
            "f.toml:1: a multi-frame has no place 24: its 24 slots are counted from 0; use a value up to 23"
        );
        assert_eq!(
            message("slots = 48, carriers = 2, fixed = 1, moves = 24"),
            "f.toml:1: slots cannot lie 24 later: a multi-frame has 24 in a row; use a value up to 23"
        );
        for (key, value) in [
            ("drain", "\"2 s\""),
            ("memory", "\"2 s\""),
            ("memory_falling", "\"2 s\""),
            ("margin", "\"10 %\""),
            ("follows", "\"growth\""),
        ] {
            assert_eq!(
                message(&format!("slots = 48, fixed = 1, requests = \"volume\", {key} = {value}")),
                format!(
                    "f.toml:1: `rate.{key}` is about requests by rate, and terminals make none; leave it out, or set \
                     `requests` to \"rate\" or \"both\""
                )
            );
        }
        assert_eq!(
            message("slots = 48, fixed = 1, slow_payload = \"2 kB\""),
            "f.toml:1: a slot of a slower carrier with 2 kB carries more than the 1 kB of the others; make it at most \
             `payload`"
        );
        assert!(
            message("slots = 48, requests = \"volume\", slow_payload = \"60 B\"").contains("set `fixed = 1` or more")
        );
        assert_eq!(message("slots = 0"), "f.toml:1: `rate.slots` = 0 is out of range; use a value from 1 to 1048576");
        assert!(read("slots = 48, requests = \"volume\"", "").is_ok());
        assert!(read("slots = 48, requests = \"none\", free = true", "").is_ok());
    }

    #[test]
    fn what_needs_a_server_stands_on_another_link() {
        let message = |beside: &str| read("slots = 48, fixed = 1", beside).unwrap_err();
        assert_eq!(
            message("queue = { bytes = \"1 MB\", aqm = { kind = \"codel\" } }"),
            "f.toml:3: `queue` gives a queue management to a TDMA channel, whose packets wait at its terminals; \
             limit the queue by `bytes` or `packets`; put anything else on a link before it"
        );
        assert!(message("burst = \"9 kB\"").contains("gives a token bucket"));
        assert!(message("queue = { time = \"1 s\" }").contains("gives a limit in time"));
    }
}
