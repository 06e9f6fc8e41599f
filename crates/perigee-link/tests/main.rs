//! Links: their laws, their processes and their queues. One program: each is linked with the whole crate.

mod classes;
mod codel;
mod drop_front;
mod fq_codel;
mod frames;
mod laws;
mod links;
mod netem;
mod processes;
mod states;
mod tdma;
mod tdma_demand;
