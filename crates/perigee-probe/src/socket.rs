//! Client and server over a UDP socket, on the machine's clock.

use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU64;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::thread::set_current_timer_slack;
use rustix::time::{clock_gettime, ClockId};
use thiserror::Error;

use crate::client::{Client, Failure, Outcome, ProbeSpec};
use crate::code::Token;
use crate::protocol::MOST_BYTES;
use crate::server::Server;

/// Why a probe failed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The caller stopped it.
    #[error("stopped")]
    Cancelled,
    /// The port is closed.
    #[error("nobody listens there")]
    NobodyListens,
    /// The protocol failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The operating system failed.
    #[error("the network refuses: {0}")]
    Network(#[from] io::Error),
}

/// Runs a probe over a non-blocking socket that is connected to the server. `name` is random; `go_on` is called ten
/// times a second with the progress, and stops the probe by returning false.
///
/// # Errors
/// If the probe fails, see [`ProbeError`].
pub fn probe(
    socket: &UdpSocket,
    token: Token,
    spec: &ProbeSpec,
    name: u64,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Outcome, ProbeError> {
    let _punctual = Punctual::new();
    let mut client = Client::new(now(), name, token, spec);
    let (mut buffer, mut looked, mut refusal) = (vec![0; MOST_BYTES], now(), None);
    loop {
        let time = now();
        for _ in 0..AT_A_TIME {
            match socket.recv(&mut buffer) {
                Ok(length) => client.receive(now(), &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(ProbeError::NobodyListens)
                }
                // No datagram, or a transient ICMP error.
                Err(_) => break,
            }
        }
        for _ in 0..AT_A_TIME {
            let Some(length) = client.transmit(now(), &mut buffer) else { break };
            match socket.send(&buffer[..length]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(ProbeError::NobodyListens)
                }
                Err(error) => {
                    client.refused(error.raw_os_error() == Some(libc::EMSGSIZE));
                    refusal = Some(error);
                }
            }
        }
        match (client.outcome(), refusal.take()) {
            // There is no route: an error other than a silent server.
            (Some(Err(Failure::NoAnswer)), Some(error)) => return Err(error.into()),
            (Some(outcome), _) => return Ok(outcome.clone()?),
            (None, last) => refusal = last,
        }
        if time - looked >= LOOK {
            looked = time;
            if !go_on(client.share()) {
                return Err(ProbeError::Cancelled);
            }
        }
        wait(socket, client.wake())?;
    }
}

/// Answers clients at a non-blocking socket until `go_on`, called ten times a second, returns false.
///
/// # Errors
/// If the socket cannot be polled.
pub fn serve(socket: &UdpSocket, server: &mut Server, go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let _punctual = Punctual::new();
    let (mut question, mut answer, mut looked) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES], now());
    loop {
        for _ in 0..AT_A_TIME {
            let Ok((length, from)) = socket.recv_from(&mut question) else { break };
            if let Some(length) = server.receive(now(), from, &question[..length], &mut answer) {
                // An answer that cannot be sent now is asked for again.
                let _ = socket.send_to(&answer[..length], from);
            }
        }
        for _ in 0..AT_A_TIME {
            let Some((to, length)) = server.transmit(now(), &mut answer) else { break };
            if let Err(error) = socket.send_to(&answer[..length], to) {
                server.refused(to, error.raw_os_error() == Some(libc::EMSGSIZE));
            }
        }
        let time = now();
        if time - looked >= LOOK {
            looked = time;
            if !go_on() {
                return Ok(());
            }
        }
        wait(socket, server.wake().unwrap_or(Time::MAX))?;
    }
}

/// Waits until the socket is readable, until `until`, or until the next call of `go_on`.
fn wait(socket: &UdpSocket, until: Time) -> io::Result<()> {
    let length = (until - now()).min(LOOK);
    if length == Time::ZERO {
        return Ok(());
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: length.as_nanos() as _ };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// Monotonic time.
fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Lets this thread wake precisely: the kernel may otherwise be 50 us late to save power, and later on a busy machine.
/// Where either request is refused, packets are late, which the counts report.
struct Punctual {
    priority_before: Option<(libc::c_int, libc::sched_param)>,
}

impl Punctual {
    fn new() -> Self {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut before = libc::sched_param { sched_priority: 0 };
        let wanted = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: acts on the calling thread, and the parameters live for the calls.
        let priority_before = unsafe {
            let policy = libc::sched_getscheduler(0);
            let known = policy >= 0 && libc::sched_getparam(0, &raw mut before) == 0;
            let set = known && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) == 0;
            set.then_some((policy, before))
        };
        Self { priority_before }
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        // Zero would select the default slack.
        let _ = set_current_timer_slack(None);
        if let Some((policy, priority)) = self.priority_before {
            // SAFETY: acts on the calling thread, and the parameter lives for the call.
            unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
        }
    }
}

/// A low real-time priority: above all ordinary threads.
const PRIORITY: libc::c_int = 5;
/// Interval of the calls of `go_on`.
const LOOK: Time = Time::from_millis(100);
/// Datagrams handled in one direction before the other has its turn.
const AT_A_TIME: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Direction;
    use crate::server::Limits;
    use perigee_units::Rate;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    const TOKEN: &[u8] = b"correct-horse";

    fn local() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    fn measure(direction: Direction, token: &[u8]) -> Result<Outcome, ProbeError> {
        let (listening, address) = local();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut server = Server::new(Token::new(TOKEN), [1; 32], Limits::default());
                serve(&listening, &mut server, &mut || !done.load(Ordering::Relaxed)).unwrap();
            });
            let (socket, _) = local();
            socket.connect(address).unwrap();
            let spec = ProbeSpec {
                direction,
                rate: Rate::from_mbps(20.0),
                packet: 1500,
                headers: 28,
                time: Time::from_secs(1),
                block: Time::from_millis(100),
            };
            let mut asked = 0;
            let outcome = probe(&socket, Token::new(token), &spec, 7, &mut |_| {
                asked += 1;
                // A client without the token waits for its time-out.
                token == TOKEN || asked < 20
            });
            done.store(true, Ordering::Relaxed);
            outcome
        })
    }

    #[test]
    fn both_directions_over_the_loopback_device_lose_nothing_and_have_the_rate_that_they_say() {
        for direction in [Direction::Up, Direction::Down] {
            let Outcome { sent, report, .. } = measure(direction, TOKEN).unwrap();
            assert_eq!((sent.packets, report.received, report.lost), (1666, 1666, 0), "{direction:?}");
            let late_ns = sent.slipped_ns + sent.refused * 600_000;
            let took_ns = sent.last_ns - sent.first_ns;
            // Lateness of the machine is reported; the rest is the schedule's.
            assert!(took_ns + 1_000_000 >= 999_000_000 && took_ns <= 1_001_000_000 + late_ns, "{sent:?}");
        }
    }

    #[test]
    fn a_client_without_the_token_gets_no_answer() {
        assert!(matches!(measure(Direction::Down, b"wrong"), Err(ProbeError::Cancelled)));
    }

    #[test]
    fn a_port_at_which_nobody_listens_is_told_as_such() {
        let (gone, address) = local();
        drop(gone);
        let (socket, _) = local();
        socket.connect(address).unwrap();
        let spec = ProbeSpec {
            direction: Direction::Up,
            rate: Rate::from_mbps(1.0),
            packet: 1500,
            headers: 28,
            time: Time::from_secs(1),
            block: Time::from_millis(100),
        };
        let outcome = probe(&socket, Token::new(TOKEN), &spec, 7, &mut |_| true);
        assert!(matches!(outcome, Err(ProbeError::NobodyListens)), "{outcome:?}");
    }
}
