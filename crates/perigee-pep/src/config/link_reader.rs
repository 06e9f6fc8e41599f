//! Reads `[link]`, and checks what its keys mean together.

use std::collections::BTreeSet;

use perigee_share::Policy;
use perigee_text::{Origin, Reader, StrictError};
use perigee_units::{Rate, Time};

use super::kinds::{DayTime, Url};
use super::link::{Asking, Portion, RateSource, Rates, SatelliteLink, SubscriberClass};
use super::network::Network;
use super::Allow;

pub(super) fn read_link(table: &Reader<'_>, allow: &Allow) -> Result<SatelliteLink, StrictError> {
    let (source, source_at) = read_source(table)?;
    let oldest = table.get("oldest")?;
    check_age(table, &source, oldest)?;
    let mut taken = BTreeSet::from([SatelliteLink::OTHERS.to_owned()]);
    let classes = table.each("subscribers")?.map(|class| read_class(&class?, allow, &mut taken));
    let subscribers: Vec<SubscriberClass> = classes.collect::<Result<_, _>>()?;
    let other = read_portion(table, 1)?;
    check_floors(table, &source, &subscribers, other)?;
    Ok(SatelliteLink {
        leg: table.get("leg")?,
        interface: table.get("interface")?,
        source,
        source_at,
        oldest,
        share: table.get("share")?,
        overhead: table.get("overhead")?,
        bypass: table.get("bypass")?,
        policy: Policy::read(table)?,
        subscribers,
        other,
    })
}

fn read_class(table: &Reader<'_>, allow: &Allow, taken: &mut BTreeSet<String>) -> Result<SubscriberClass, StrictError> {
    let name: String = table.get("name")?;
    if !taken.insert(name.clone()) {
        let fix = "give each of `[[link.subscribers]]` a name of its own; `others` are those without a table";
        return Err(table.error("name", format!("the name `{name}` is taken"), fix));
    }
    let sources: Vec<Network> = table.get("sources")?;
    let is_client = |one: &Network| allow.sources.iter().any(|other| other.covers(*one) || one.covers(*other));
    if let Some(stranger) = sources.iter().find(|network| !is_client(network)) {
        let message = format!("`{stranger}` is not within `allow.sources`");
        return Err(table.error("sources", message, "allow it there, or remove it here"));
    }
    let portion = read_portion(table, table.get("weight")?)?;
    Ok(SubscriberClass { name, sources, is_each: table.get("each")?, portion })
}

fn read_portion(table: &Reader<'_>, weight: u32) -> Result<Portion, StrictError> {
    let floor = table.table.get("floor")?.unwrap_or(Rate::ZERO);
    let ceiling = table.table.get("ceiling")?.unwrap_or(Rate::UNLIMITED);
    if floor > ceiling {
        return Err(table.error("floor", format!("a floor of {floor} is above the ceiling"), "lower it"));
    }
    Ok(Portion { weight, floor, ceiling })
}

/// Floors hold in both directions, each as far as its rate goes: one that no direction has at any time is a mistake.
fn check_floors(
    table: &Reader<'_>,
    source: &RateSource,
    subscribers: &[SubscriberClass],
    other: Portion,
) -> Result<(), StrictError> {
    let rates: Vec<Rates> = match source {
        RateSource::Fixed(rates) => vec![*rates],
        RateSource::Daily(slots) => slots.iter().map(|(_, rates)| *rates).collect(),
        _ => return Ok(()),
    };
    let Some(most) = rates.iter().flat_map(|rates| [rates.send, rates.receive]).flatten().max() else { return Ok(()) };
    if other.floor > most {
        let message = format!("a floor of {} is above the link's rate of {most}", other.floor);
        return Err(table.error("floor", message, "lower it"));
    }
    let mut sum = Rate::ZERO;
    for (class, one) in table.each("subscribers")?.zip(subscribers) {
        sum = Rate::from_bps(sum.as_bps().saturating_add(one.portion.floor.as_bps()));
        if sum > most {
            let message = format!("floors up to this one, {sum}, are above the link's rate of {most}");
            return Err(class?.error("floor", message, "lower them"));
        }
    }
    Ok(())
}

/// A modem has to be asked before its last answer is too old.
fn check_age(table: &Reader<'_>, source: &RateSource, oldest: Time) -> Result<(), StrictError> {
    let (RateSource::Command(_, asking) | RateSource::Http(_, _, asking)) = source else { return Ok(()) };
    if asking.every < oldest {
        return Ok(());
    }
    let key = if table.table.has("every") { "every" } else { "oldest" };
    let message = format!(
        "with `link.every` = {} and `link.oldest` = {oldest} an answer is too old before the next",
        asking.every
    );
    Err(table.error(key, message, "lower `every`, or raise `oldest` above it"))
}

/// The one source of rates that is given, and where.
fn read_source(table: &Reader<'_>) -> Result<(RateSource, Origin), StrictError> {
    let fixed = read_rates(table)?;
    let daily = read_schedule(table)?;
    let asking = Asking {
        every: table.get("every")?,
        within: table.get("within")?,
        send_key: read_key(table, "send_key")?,
        receive_key: read_key(table, "receive_key")?,
    };
    let command: Vec<String> = table.table.get("command")?.unwrap_or_default();
    let modem: Option<Url> = table.table.get("modem")?;
    let slots: Option<String> = table.table.get("slots")?;
    let mut given = Vec::new();
    given.extend((fixed != Rates::default()).then_some(("send", RateSource::Fixed(fixed))));
    given.extend((!daily.is_empty()).then_some(("schedule", RateSource::Daily(daily))));
    given.extend(slots.map(|path| ("slots", RateSource::Slots(path.into()))));
    given.extend((!command.is_empty()).then(|| ("command", RateSource::Command(command, asking.clone()))));
    given.extend(modem.map(|Url(address, path)| ("modem", RateSource::Http(address, path, asking))));
    if let (Some((key, source)), true) = (given.pop(), given.is_empty()) {
        let origin = table.table.node(key).map_or(table.table.origin, |node| &node.origin);
        return Ok((source, origin.clone()));
    }
    let message = "the rate of the link has to be known from one source";
    let fix = "give `send` and `receive`, or `[[link.schedule]]`, or `slots`, or `command`, or `modem`";
    Err(StrictError::new(table.table.origin, message, fix))
}

/// Rates by the time of day, in its order.
fn read_schedule(table: &Reader<'_>) -> Result<Vec<(u64, Rates)>, StrictError> {
    let mut daily: Vec<(u64, Rates)> = Vec::new();
    for slot in table.each("schedule")? {
        let slot = slot?;
        let (DayTime(at), rates) = (slot.get("at")?, read_rates(&slot)?);
        if rates == Rates::default() {
            let message = "an entry of the schedule has neither `send` nor `receive`";
            return Err(slot.error("at", message, "add one of them"));
        }
        if daily.iter().any(|(other, _)| *other == at) {
            return Err(slot.error("at", "an entry before begins at that time", "give each a time of its own"));
        }
        daily.push((at, rates));
    }
    daily.sort_by_key(|(at, _)| *at);
    Ok(daily)
}

/// Names joined by dots, which say where an answer of the modem has a rate.
fn read_key(table: &Reader<'_>, key: &str) -> Result<Option<String>, StrictError> {
    let Some(path) = table.table.get::<String>(key)? else { return Ok(None) };
    let what = table.dotted(key);
    if path.split('.').any(str::is_empty) {
        let fix = "write names joined by dots: `\"link.uplink_bps\"`";
        return Err(table.error(key, format!("`{what}` = `{path}` has an empty name"), fix));
    }
    if !table.table.has("command") && !table.table.has("modem") {
        let message = format!("`{what}` is for the answer of a modem, and none is asked");
        return Err(table.error(key, message, "remove it, or give `command` or `modem`"));
    }
    Ok(Some(path))
}

fn read_rates(table: &Reader<'_>) -> Result<Rates, StrictError> {
    Ok(Rates { send: table.table.get("send")?, receive: table.table.get("receive")? })
}
