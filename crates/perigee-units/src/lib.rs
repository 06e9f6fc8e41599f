//! Quantities with their units, named streams of random numbers, and misspelt names.
//!
//! Every crate of Perigee speaks in these types: [`Time`] in nanoseconds, [`Rate`] in bits per second,
//! [`Bytes`], and [`Ratio`]. They parse from and print as text a person writes in a study
//! (`"600 ms"`, `"144 Mbit/s"`, `"36 MB"`, `"0.1 %"`); a number without a unit is an error.
//! Decimal prefixes are powers of 1000 (`kB`, `MB`, `GB`), binary ones powers of 1024 (`KiB`, `MiB`, `GiB`).

mod column;
mod encode;
mod hash;
mod quantity;
mod random;
mod serial;
mod spelling;
mod text;

pub use column::in_column_unit;
pub use encode::{fingerprint, Encode};
pub use hash::fnv1a;
pub use quantity::{Bytes, Rate, Ratio, Time};
pub use random::{Positions, Stream};
pub use serial::nearest_position;
pub use spelling::{is_near, suggestion};
pub use text::UnitError;
