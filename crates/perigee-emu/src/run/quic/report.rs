//! Reports of a flow over QUIC to its run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use perigee_results::Tables;
use perigee_sim::Logged;

/// How far a flow is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowStanding {
    /// From 0 to 1.
    pub(super) progress: f64,
    /// Bytes.
    pub(super) received: u64,
    pub(super) has_ended: bool,
}

/// A flow's tables and the logs of its ends.
pub(super) type Measured = (Tables, Vec<Logged>);

/// Reports of a flow to the run's observer.
#[derive(Default)]
pub(crate) struct QuicReport {
    has_ended: AtomicBool,
    /// Progress, as the bits of a number from 0 to 1.
    progress: AtomicU64,
    received: AtomicU64,
    /// Its tables and logs, after the run; `None` of a flow that has not started, or is carried by another process.
    measured: Mutex<Option<Measured>>,
}

impl QuicReport {
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }

    /// Bytes received by the flow.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn hear(&self, standing: FlowStanding) {
        self.progress.store(standing.progress.to_bits(), Ordering::Relaxed);
        self.received.store(standing.received, Ordering::Relaxed);
        self.has_ended.store(standing.has_ended, Ordering::Release);
    }

    pub(super) fn keep(&self, measured: Option<Measured>) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = measured;
    }

    /// Takes what the flow has measured.
    pub(crate) fn take(&self) -> Option<Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
