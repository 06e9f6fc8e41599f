//! The keys of a division, which a study and the service have alike.

use perigee_text::{key, Key, Kind, Reader, StrictError, LARGEST};
use perigee_units::{Bytes, Time};

use crate::Policy;

/// `share`.
pub const SHARE: Key = key(
    "share",
    Kind::Number { min: 0.5, max: 1.0 },
    "0.98",
    "Share of the link's rate that is used, so that no queue forms behind the proxy.",
);
/// `bypass`.
pub const BYPASS: Key = key(
    "bypass",
    Kind::Number { min: 0.0, max: 1.0 },
    "0.5",
    "Largest share of the rate that is left to what passes the proxy by.",
);
/// [`Policy::short`].
pub const SHORT: Key = key(
    "short",
    Kind::Size { min: Bytes::new(1), max: LARGEST },
    "256 KiB",
    "A connection that has sent less of late is served before others of its subscriber.",
);
/// [`Policy::memory`].
pub const MEMORY: Key = key(
    "memory",
    Kind::Time { min: Time::from_millis(100), max: Time::from_secs(86_400) },
    "10 s",
    "Silence after which any connection is short again; one that is slower by itself than `short` in this time stays so.",
);
/// [`Policy::savings`].
pub const SAVINGS: Key = key(
    "savings",
    Kind::Size { min: Bytes::ZERO, max: LARGEST },
    "2 MiB",
    "Bytes that a subscriber may save of its share, for its short transfers to go before those of others.",
);

impl Policy {
    /// Reads it from a table that has its keys.
    ///
    /// # Errors
    /// If a value is wrong.
    pub fn read(table: &Reader<'_>) -> Result<Self, StrictError> {
        Ok(Self { short: table.get("short")?, memory: table.get("memory")?, savings: table.get("savings")? })
    }
}
