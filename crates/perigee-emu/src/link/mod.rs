//! An emulated link: the driver that moves packets through the model, and its devices.

pub(crate) mod driver;
pub(crate) mod endpoint;
pub(crate) mod histogram;
pub(crate) mod wire;
