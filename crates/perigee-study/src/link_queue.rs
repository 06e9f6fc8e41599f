//! `[proxies.sides.LINK.link]`: a link whose queue a proxy owns.

use perigee_share::Policy;
use perigee_text::{key, Kind, Reader, Section, StrictError, LARGEST};
use perigee_units::{Bytes, Rate, Ratio, Time};

use crate::run::Scenario;
use crate::transport::LinkQueue;

/// `[proxies.sides.LINK.link]`.
pub(crate) static LINK_QUEUE: Section = Section {
    name: "proxies.sides.link",
    keys: &[
        key("enabled", Kind::Bool, "true", "Whether the proxy owns the queue: `vary` it to compare."),
        key(
            "share",
            Kind::Number { min: 0.5, max: 1.0 },
            "0.98",
            "Share of the link's rate that is used, so that no queue forms behind the proxy.",
        ),
        key(
            "bypass",
            Kind::Number { min: 0.0, max: 1.0 },
            "0.5",
            "Largest share of the rate that is left to what passes the proxy by.",
        ),
        key(
            "told",
            Kind::Time { min: Time::ZERO, max: Time::from_secs(3600) },
            "0 s",
            "How long after a change of the link's rate the proxy is told.",
        ),
        key(
            "short",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "256 KiB",
            "A connection that has sent less of late is served before others of its subscriber.",
        ),
        key(
            "memory",
            Kind::Time { min: Time::from_millis(100), max: Time::from_secs(86_400) },
            "10 s",
            "Silence after which any connection is short again; one slower than `short` in this time stays so.",
        ),
        key(
            "savings",
            Kind::Size { min: Bytes::ZERO, max: LARGEST },
            "2 MiB",
            "Bytes that a subscriber may save of its share, for its short transfers to go before those of others.",
        ),
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
    let policy = Policy { short: table.get("short")?, memory: table.get("memory")?, savings: table.get("savings")? };
    let (share, bypass) = (part("share")?, part("bypass")?);
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
