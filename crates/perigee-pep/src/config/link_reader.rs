//! Reads `[link]`.

use perigee_share::Policy;
use perigee_text::{Reader, StrictError};
use perigee_units::Rate;

use super::kinds::{DayTime, Url};
use super::link::{Asking, Portion, RateSource, Rates, SatelliteLink, SubscriberClass};

pub(super) fn read_link(table: &Reader<'_>) -> Result<SatelliteLink, StrictError> {
    let class = |table: Result<Reader<'_>, StrictError>| {
        let table = table?;
        Ok(SubscriberClass {
            name: table.get("name")?,
            sources: table.get("sources")?,
            is_each: table.get("each")?,
            portion: read_portion(&table, table.get("weight")?)?,
        })
    };
    let subscribers: Vec<SubscriberClass> = table.each("subscribers")?.map(class).collect::<Result<_, _>>()?;
    for (at, one) in subscribers.iter().enumerate() {
        if subscribers[..at].iter().any(|other| other.name == one.name) {
            let message = format!("the name `{}` is taken", one.name);
            return Err(table.error("subscribers", message, "give each of `[[link.subscribers]]` a name of its own"));
        }
    }
    Ok(SatelliteLink {
        leg: table.get("leg")?,
        interface: table.get("interface")?,
        source: read_source(table)?,
        oldest: table.get("oldest")?,
        share: table.get("share")?,
        overhead: table.get("overhead")?,
        bypass: table.get("bypass")?,
        policy: Policy { short: table.get("short")?, memory: table.get("memory")?, savings: table.get("savings")? },
        subscribers,
        other: read_portion(table, 1)?,
    })
}

fn read_portion(table: &Reader<'_>, weight: u32) -> Result<Portion, StrictError> {
    let floor = table.table.get("floor")?.unwrap_or(Rate::ZERO);
    let ceiling = table.table.get("ceiling")?.unwrap_or(Rate::UNLIMITED);
    if floor > ceiling {
        return Err(table.error("floor", format!("a floor of {floor} is above the ceiling"), "lower it"));
    }
    Ok(Portion { weight, floor, ceiling })
}

/// The one source of rates that is given.
fn read_source(table: &Reader<'_>) -> Result<RateSource, StrictError> {
    let fixed = read_rates(table)?;
    let daily = table.each("schedule")?.map(|slot| {
        let slot = slot?;
        let DayTime(at) = slot.get("at")?;
        Ok((at, read_rates(&slot)?))
    });
    let mut daily: Vec<(u64, Rates)> = daily.collect::<Result<_, StrictError>>()?;
    daily.sort_by_key(|(at, _)| *at);
    let asking = Asking {
        every: table.get("every")?,
        within: table.get("within")?,
        send_key: table.table.get("send_key")?,
        receive_key: table.table.get("receive_key")?,
    };
    let command: Vec<String> = table.table.get("command")?.unwrap_or_default();
    let modem: Option<Url> = table.table.get("modem")?;
    let slots: Option<String> = table.table.get("slots")?;
    let mut given = Vec::new();
    given.extend((fixed != Rates::default()).then_some(RateSource::Fixed(fixed)));
    given.extend((!daily.is_empty()).then_some(RateSource::Daily(daily)));
    given.extend(slots.map(|path| RateSource::Slots(path.into())));
    given.extend((!command.is_empty()).then(|| RateSource::Command(command, asking.clone())));
    given.extend(modem.map(|Url(address, path)| RateSource::Http(address, path, asking)));
    if let (Some(source), true) = (given.pop(), given.is_empty()) {
        return Ok(source);
    }
    let message = "the rate of the link has to be known from one source";
    let fix = "give `send` and `receive`, or `[[link.schedule]]`, or `slots`, or `command`, or `modem`";
    Err(StrictError::new(table.table.origin, message, fix))
}

fn read_rates(table: &Reader<'_>) -> Result<Rates, StrictError> {
    Ok(Rates { send: table.table.get("send")?, receive: table.table.get("receive")? })
}
