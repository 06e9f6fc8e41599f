//! The service as it runs: between hosts in network namespaces, with the kernel's TCP and firewall. Needs root.
#![allow(clippy::disallowed_methods, reason = "tests read the environment, and poll for what the service writes")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod accounting;
mod confinement;
mod doctor;
mod guide;
mod hold;
mod link;
mod networks;
mod operation;
mod outages;
mod rulesets;
mod strangers;
mod transfers;
mod tunnel;
mod upgrades;
mod world;
