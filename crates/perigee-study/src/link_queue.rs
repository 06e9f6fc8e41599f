//! `[proxies.sides.LINK.link]`: a link whose queue a proxy owns.

use perigee_share::{Policy, BYPASS, MEMORY, SAVINGS, SHARE, SHORT};
use perigee_text::{key, Kind, Reader, Section, StrictError};
use perigee_units::{Rate, Ratio, Time};

use crate::run::Scenario;
use crate::transport::LinkQueue;

/// `[proxies.sides.LINK.link]`.
pub(crate) static LINK_QUEUE: Section = Section {
    name: "proxies.sides.link",
    keys: &[
        key("enabled", Kind::Bool, "true", "Whether the proxy owns the queue: `vary` it to compare."),
        SHARE,
        BYPASS,
        key(
            "told",
            Kind::Time { min: Time::ZERO, max: Time::from_secs(3600) },
            "0 s",
            "How long after a change of the link's rate the proxy is told.",
        ),
        SHORT,
        MEMORY,
        SAVINGS,
        key(
            "floor",
            Kind::RateFrom(Rate::ZERO),
            "0 bit/s",
            "Rate that a subscriber gets, if it has so much to send, before others get more than their floors.",
        ),
        key("ceiling", Kind::Rate, "", "Rate that a subscriber never exceeds."),
    ],
};

/// Reads the table, of a side towards the directed link `link`; `None` where it is off.
pub(crate) fn read(table: &Reader<'_>, link: u32) -> Result<Option<LinkQueue>, StrictError> {
    if !table.get::<bool>("enabled")? {
        return Ok(None);
    }
    let part = |key: &str| table.get::<f64>(key).map(|share| Ratio::new(share).unwrap_or(Ratio::ONE));
    let (floor, ceiling): (Rate, Rate) = (table.get("floor")?, table.table.get("ceiling")?.unwrap_or(Rate::UNLIMITED));
    if ceiling < floor {
        let message = format!("a floor of {floor} is above the ceiling of {ceiling}");
        return Err(table.error("floor", message, "lower the one or raise the other"));
    }
    let (share, bypass, policy) = (part("share")?, part("bypass")?, Policy::read(table)?);
    Ok(Some(LinkQueue { link, share, bypass, told: table.get("told")?, policy, floor, ceiling }))
}

/// The setting in words; `None` between real hosts, whose plan has no links.
pub(crate) fn in_words(queue: &LinkQueue, scenario: &Scenario) -> Option<String> {
    let LinkQueue { link, share, bypass, told, policy: Policy { short, memory, savings }, floor, ceiling } = queue;
    let name = &scenario.links.get(*link as usize)?.name;
    let always = format!(
        "{name}, up to {share} of its rate, of which others have {bypass} at the most; up to {short} in {memory} are \
         short, and {savings} are saved"
    );
    let told = (*told > Time::ZERO).then(|| format!("; told {told} after a change"));
    let floor = (*floor > Rate::ZERO).then(|| format!("; {floor} for each subscriber first"));
    let ceiling = (*ceiling < Rate::UNLIMITED).then(|| format!("; no more than {ceiling} for any"));
    Some([Some(always), told, floor, ceiling].into_iter().flatten().collect())
}
