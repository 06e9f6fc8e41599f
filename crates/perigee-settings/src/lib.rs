//! The description of a setting of a host's TCP. The settings themselves are one list, `list.rs`.
//!
//! An entry of the list makes a field of [`Config`], its default and its documentation, and a [`Setting`], from which
//! others take what they need: studies their keys, reports their words, engines what they can carry to a real host.
//! [`SYSTEMS`] has the values of known systems.

mod define;
mod derived;
#[allow(clippy::unreadable_literal, reason = "the reference of studies shows defaults as they are written there")]
mod list;
mod systems;
mod value;

pub use derived::{measured_share, SHARE_SHIFT};
pub use list::{Config, InitialWindowCut, ReceiveGrowth, Receiving, RtoFloor, Setting, WindowShare, SETTINGS};
pub use systems::{Preset, System, SYSTEMS};
pub use value::{Domain, Kernel, Sysctl, Value};
