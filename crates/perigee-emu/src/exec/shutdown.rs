//! Orderly end of a program behind a link: terminates processes that it left behind, and drains the link.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use perigee_units::Time;
use rustix::io::Errno;
use rustix::process::{pidfd_send_signal, Signal};

use crate::exec::leftovers::Process;
use crate::exec::progress::Progress;
use crate::os::clock::{monotonic, sleep};
use crate::os::namespace::Namespace;
use crate::os::signals::Signals;

/// Data that was not delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// TCP connections with unacknowledged data or FIN.
    pub connections: u64,
    /// Unsent or unacknowledged bytes of these, a FIN counting as one.
    pub bytes: u64,
    /// Packets in the link, both directions.
    pub packets: u64,
}

/// Terminates all processes of a namespace: SIGTERM, and SIGKILL after [`PATIENCE`] or at the first signal.
/// Returns the terminated processes, and whether a signal arrived.
pub(crate) fn end_processes(namespace: &Namespace, signals: &mut Signals) -> io::Result<(Vec<Process>, bool)> {
    let (began, mut hurried) = (monotonic(), false);
    let mut told: Vec<Process> = Vec::new();
    loop {
        let found = namespace.processes()?;
        let waited = monotonic().checked_sub(began).unwrap_or_default();
        if found.is_empty() || waited >= PATIENCE + KILLED {
            return Ok((told, hurried));
        }
        let is_killing = hurried || waited >= PATIENCE;
        // Some end by themselves right after the program, such as the rest of a pipeline.
        let may_end = is_killing || waited >= GRACE;
        for (held, process) in found.into_iter().filter(|_| may_end) {
            let is_new = told.iter().all(|known| known.pid != process.pid);
            if is_killing || is_new {
                match pidfd_send_signal(&held, if is_killing { Signal::KILL } else { Signal::TERM }) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if is_new {
                told.push(process);
            }
        }
        hurried |= is_hurried(signals);
    }
}

/// Waits until all sent data of a namespace's sockets is acknowledged and the packets then in the link have left it,
/// for `bound` at most, or until a signal. Returns the undelivered data.
///
/// `told` is called once, after a second, with the data still in flight.
pub(crate) fn drain(
    namespace: &Namespace,
    progress: &Progress,
    signals: &mut Signals,
    bound: Time,
    told: &mut dyn FnMut(&Undelivered),
) -> io::Result<Undelivered> {
    let mut sockets = Sockets::of(namespace)?;
    let began = monotonic();
    let (mut quiet_since, mut rounds, mut is_told) = (None, Rounds::default(), false);
    loop {
        let (connections, bytes) = sockets.unacknowledged()?;
        let now = monotonic();
        if connections > 0 {
            (quiet_since, rounds) = (None, Rounds::default());
        } else if now.checked_sub(*quiet_since.get_or_insert(now)).unwrap_or_default() >= QUIET
            && rounds.are_over(progress)
        {
            return Ok(Undelivered::default());
        }
        let waited = now.checked_sub(began).unwrap_or_default();
        let left = Undelivered { connections, bytes, packets: progress.under_way() };
        if waited >= bound {
            return Ok(left);
        }
        if !is_told && waited >= TELL {
            is_told = true;
            told(&left);
        }
        if is_hurried(signals) {
            return Ok(left);
        }
    }
}

/// Two rounds: in each, all packets in the link at its start leave. The second is for the answers to those of the
/// first. Other hosts may keep sending to the dead program, so the link need not become empty.
#[derive(Debug, Default)]
struct Rounds {
    over: u32,
    /// Packets offered before this round.
    began: Option<[u64; 2]>,
}

impl Rounds {
    fn are_over(&mut self, progress: &Progress) -> bool {
        let began = *self.began.get_or_insert_with(|| progress.packets_offered());
        if progress.packets_gone().iter().zip(began).all(|(gone, offered)| *gone >= offered) {
            self.over += 1;
            self.began = None;
        }
        self.over >= 2
    }
}

/// The kernel's lists of the TCP sockets of a namespace.
struct Sockets(Vec<File>);

impl Sockets {
    fn of(namespace: &Namespace) -> io::Result<Self> {
        namespace.enter(|| {
            let v4 = File::open("/proc/thread-self/net/tcp")?;
            match File::open("/proc/thread-self/net/tcp6") {
                Ok(v6) => Ok(Self(vec![v4, v6])),
                // The kernel has no IPv6.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(vec![v4])),
                Err(error) => Err(error),
            }
        })
    }

    /// Connections with unacknowledged data, and the bytes.
    fn unacknowledged(&mut self) -> io::Result<(u64, u64)> {
        let (mut connections, mut bytes) = (0, 0);
        for file in &mut self.0 {
            let mut text = String::new();
            file.rewind()?;
            file.read_to_string(&mut text)?;
            for unsent in text.lines().skip(1).filter_map(unacknowledged).filter(|unsent| *unsent > 0) {
                connections += 1;
                bytes += unsent;
            }
        }
        Ok((connections, bytes))
    }
}

/// Unacknowledged bytes in a line of `/proc/net/tcp`: `sl local remote state tx_queue:rx_queue ...`;
/// `None` for a listening socket.
fn unacknowledged(line: &str) -> Option<u64> {
    let mut fields = line.split_whitespace().skip(3);
    let state = fields.next()?;
    let (unacknowledged, _) = fields.next()?.split_once(':')?;
    (state != LISTENS).then(|| u64::from_str_radix(unacknowledged, 16).ok())?
}

/// Sleeps one interval; returns whether a signal arrived meanwhile.
fn is_hurried(signals: &mut Signals) -> bool {
    sleep(LOOK);
    !signals.arrived().is_empty()
}

const LISTENS: &str = "0A";
/// Interval of the checks.
const LOOK: Time = Time::from_millis(20);
/// From SIGTERM to SIGKILL.
const PATIENCE: Time = Time::from_secs(5);
/// Time for the kernel to remove a killed process; one that waits for a device may stay forever.
const KILLED: Time = Time::from_secs(1);
const GRACE: Time = Time::from_millis(200);
/// Time for the driver to read packets of the kernel, and for the server to answer a FIN.
const QUIET: Time = Time::from_millis(50);
const TELL: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::driver::Observer as _;

    #[test]
    fn what_is_not_acknowledged_is_read_from_the_kernels_list() {
        let line = |state: &str, queues: &str| {
            unacknowledged(&format!(
                "   1: 02004064:8A6E 01004064:1519 {state} {queues} 01:00000014 00000000     0        0 0 2 ffff 20 4 30 10 -1"
            ))
        };
        assert_eq!(line("04", "000F4241:00000000"), Some(1_000_001));
        assert_eq!(line("06", "00000000:00000000"), Some(0));
        assert_eq!(line("0A", "00000000:00000003"), None);
        assert_eq!(unacknowledged("  sl  local_address"), None);
    }

    #[test]
    fn a_link_that_others_keep_busy_is_drained_once_all_packets_of_two_moments_have_left() {
        let progress = Progress::default();
        let (mut observer, mut rounds) = (&progress, Rounds::default());
        for _ in 0..3 {
            observer.offered(0, Time::ZERO, &[]);
        }
        assert!(!rounds.are_over(&progress));
        for _ in 0..2 {
            observer.released(0, Time::ZERO, &[]);
            observer.offered(0, Time::ZERO, &[]);
            assert!(!rounds.are_over(&progress));
        }
        observer.dropped(0, Time::ZERO, &[]);
        // The first round ends with the third packet; two have arrived since.
        assert!(!rounds.are_over(&progress) && !rounds.are_over(&progress));
        assert_eq!(progress.under_way(), 2);
        for _ in 0..2 {
            observer.released(0, Time::ZERO, &[]);
            observer.offered(0, Time::ZERO, &[]);
        }
        assert!(rounds.are_over(&progress));
    }
}
