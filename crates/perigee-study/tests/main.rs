//! Studies, profiles and their errors. One program: each is linked with the whole crate.

mod authored;
mod common;
mod corpus;
mod errors;
mod experiments;
mod idle;
mod plans;
mod profiles;
mod proxies;
mod quic;
mod recorded;
mod schema;
