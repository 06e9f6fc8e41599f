//! The two sides over a UDP socket, on the machine's clock.

use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU64;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::thread::set_current_timer_slack;
use rustix::time::{clock_gettime, ClockId};
use thiserror::Error;

use crate::client::{Client, Failure, Outcome, Plan};
use crate::code::Token;
use crate::server::Server;
use crate::wire::MOST_BYTES;

/// Why a probe failed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The caller said so.
    #[error("stopped")]
    Cancelled,
    /// Nobody listens at that port.
    #[error("nobody listens there")]
    NobodyListens,
    /// As the protocol has it.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The operating system's word.
    #[error("the network refuses: {0}")]
    Network(#[from] io::Error),
}

/// Carries one probe out over a socket that is connected to the server and does not block. `name` is random; `go_on` is
/// asked ten times a second, with the share that is done.
///
/// # Errors
/// Where it could not be carried out.
pub fn probe(
    socket: &UdpSocket,
    token: Token,
    plan: &Plan,
    name: u64,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Outcome, ProbeError> {
    let _punctual = Punctual::new();
    let mut client = Client::new(now(), name, token, plan);
    let (mut buffer, mut looked, mut refusal) = (vec![0; MOST_BYTES], now(), None);
    loop {
        let time = now();
        for _ in 0..AT_A_TIME {
            match socket.recv(&mut buffer) {
                Ok(length) => client.receive(now(), &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(ProbeError::NobodyListens)
                }
                // Nothing there, or news of a way that is not there at this moment.
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
            // Not a silent server, but no way there.
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

/// Answers at a socket that does not block until `go_on`, asked ten times a second, says no.
///
/// # Errors
/// Where the socket cannot be waited for.
pub fn serve(socket: &UdpSocket, server: &mut Server, go_on: &mut dyn FnMut(&Server) -> bool) -> io::Result<()> {
    let _punctual = Punctual::new();
    let (mut question, mut answer, mut looked) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES], now());
    loop {
        for _ in 0..AT_A_TIME {
            let Ok((length, from)) = socket.recv_from(&mut question) else { break };
            if let Some(length) = server.receive(now(), from, &question[..length], &mut answer) {
                // What cannot be answered at this moment is asked again.
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
            if !go_on(server) {
                return Ok(());
            }
        }
        wait(socket, server.wake().unwrap_or(Time::MAX))?;
    }
}

/// Until there is something to read, `until`, or the next look at the caller.
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

/// Time since some instant in the past; it does not jump.
fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// This thread wakes when it asked for it: the kernel may be some 50 us late to save power, and more where others are at
/// work. Where either is refused, packets are as late as the kernel has it, which is reported.
struct Punctual {
    priority_before: Option<(libc::c_int, libc::sched_param)>,
}

impl Punctual {
    fn new() -> Self {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut before = libc::sched_param { sched_priority: 0 };
        let wanted = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: the calling thread, and parameters that live for the calls.
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
        // A slack of nothing is the kernel's own.
        let _ = set_current_timer_slack(None);
        if let Some((policy, priority)) = self.priority_before {
            // SAFETY: the calling thread, and a parameter that lives for the call.
            unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
        }
    }
}

/// Among real-time threads, low: above all that are none.
const PRIORITY: libc::c_int = 5;
/// How often the caller is asked.
const LOOK: Time = Time::from_millis(100);
/// Datagrams in or out before the other direction has its turn.
const AT_A_TIME: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Limits;
    use crate::wire::Direction;
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
                serve(&listening, &mut server, &mut |_| !done.load(Ordering::Relaxed)).unwrap();
            });
            let (socket, _) = local();
            socket.connect(address).unwrap();
            let plan = Plan {
                direction,
                rate: Rate::from_mbps(20.0),
                packet: 1500,
                headers: 28,
                time: Time::from_secs(1),
                block: Time::from_millis(100),
            };
            let mut asked = 0;
            let outcome = probe(&socket, Token::new(token), &plan, 7, &mut |_| {
                asked += 1;
                // Who does not know the token would wait for long.
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
            // What the machine was late is told; the rest is the timetable.
            assert!(took_ns + 1_000_000 >= 999_000_000 && took_ns <= 1_001_000_000 + late_ns, "{sent:?}");
        }
    }

    #[test]
    fn who_does_not_know_the_token_gets_no_answer() {
        assert!(matches!(measure(Direction::Down, b"wrong"), Err(ProbeError::Cancelled)));
    }

    #[test]
    fn a_port_at_which_nobody_listens_is_told_as_such() {
        let (gone, address) = local();
        drop(gone);
        let (socket, _) = local();
        socket.connect(address).unwrap();
        let plan = Plan {
            direction: Direction::Up,
            rate: Rate::from_mbps(1.0),
            packet: 1500,
            headers: 28,
            time: Time::from_secs(1),
            block: Time::from_millis(100),
        };
        let outcome = probe(&socket, Token::new(TOKEN), &plan, 7, &mut |_| true);
        assert!(matches!(outcome, Err(ProbeError::NobodyListens)), "{outcome:?}");
    }
}
