//! Flows whose algorithm is an author's file. A process that the kernel confines carries each of them; a thread of the run attends to it:
//! it makes the sockets, since that process may make none, and hears how far the flow is.
//!
//! Messages from the run have a socket, or say why there is none; the first also has the origin of the run's clock. Those to the run are
//! the connection that needs a socket, or how far the flow is, as numbers of 64 bits.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use perigee_pep::{Channel, Message};
use perigee_results::Tables;
use perigee_sim::Logged;
use perigee_study::Run;
use perigee_units::Time;
use perigee_wire::Ports;

use super::flow::{carry, pause, Home, LOOK};
use super::keys::RealKeys;
use super::report::{FlowStanding, QuicReport};
use super::sockets::{Places, Sockets};
use crate::os::clock::{timespec, wake_precisely, RunClock};
use crate::run::error::{failed, RunError};
use crate::run::sockets::PRIORITY;

/// The flows of a run that processes of their own must carry, by number.
pub fn apart(run: &Run) -> Vec<u32> {
    let flows = (0..).zip(&run.scenario.flows);
    let own = flows.filter(|(_, flow)| flow.traffic.quic().is_some_and(|quic| !quic.cc.algorithm().is_loaded()));
    own.map(|(number, _)| number).collect()
}

/// Gives the calling thread the priority of one that carries a flow, which it cannot take once it is confined.
pub fn hurry() {
    wake_precisely(PRIORITY);
}

/// Carries a flow of [`apart`], in a process of its own. [`crate::run`] has the other end of the channel; `beat` is called with the
/// flow's progress, ten times a second and more.
///
/// # Errors
/// If a system call fails.
pub fn carry_apart(
    run: &Run,
    number: u32,
    channel: OwnedFd,
    beat: &mut dyn FnMut(f64),
) -> Result<(Tables, Vec<Logged>), RunError> {
    let channel = Channel::of(channel).map_err(failed("joining the run"))?;
    // Time goes on once the run has begun.
    let keys = RealKeys::new().map_err(failed("making keys"))?;
    let Some((clock, sockets)) = begin(&channel, beat).map_err(failed("taking sockets"))? else {
        return Ok((Tables::default(), Vec::new()));
    };
    let mut home = Apart { channel, beat, next: Time::ZERO, has_ended: false };
    let places = Places::of(number, &run.scenario.flows[number as usize]);
    let carried =
        Sockets::new(places, sockets).and_then(|sockets| carry(run, number, sockets, &keys, clock, &mut home));
    pause();
    Ok(carried.map_err(failed("carrying a flow"))?.unwrap_or_default())
}

/// Waits for the run to begin: its clock, and the sockets of the first client and the server. `None`: it will not.
fn begin(channel: &Channel, beat: &mut dyn FnMut(f64)) -> io::Result<Option<(RunClock, [UdpSocket; 2])>> {
    let mut next = || loop {
        beat(0.0);
        match channel.within(timespec(LOOK)) {
            Ok(Some(message)) => return socket_of(message).map(Some),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    };
    let (Some((said, client)), Some((_, server))) = (next()?, next()?) else { return Ok(None) };
    let origin = Time::from_nanos(numbers(&said).first().copied().unwrap_or_default());
    Ok(Some((RunClock { origin }, [client, server])))
}

/// The socket that a message brings, and what it says.
fn socket_of(message: Message) -> io::Result<(Vec<u8>, UdpSocket)> {
    match message.descriptor {
        Some(socket) => Ok((message.bytes, socket.into())),
        None => Err(io::Error::other(message.text().to_owned())),
    }
}

/// The run, from the process of a flow.
struct Apart<'a> {
    channel: Channel,
    beat: &'a mut dyn FnMut(f64),
    /// When it learns of progress next.
    next: Time,
    /// Whether it knows that the flow has ended.
    has_ended: bool,
}

impl Home for Apart<'_> {
    fn client(&mut self, connection: u32) -> io::Result<UdpSocket> {
        self.channel.send(&bytes(&[connection.into()]), None)?;
        let message = self.channel.receive().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::ErrorKind::BrokenPipe.into(),
            _ => error,
        })?;
        Ok(socket_of(message)?.1)
    }

    fn hear(&mut self, now: Time, standing: FlowStanding) -> bool {
        if now < self.next && standing.has_ended == self.has_ended {
            return true;
        }
        (self.next, self.has_ended) = (now + LOOK, standing.has_ended);
        (self.beat)(standing.progress);
        // A flow with more to do than its core can never waits, and is no loop without end.
        pause();
        let said = [standing.progress.to_bits(), standing.received, u64::from(standing.has_ended)];
        // A run that has ended hears nothing.
        self.channel.send(&bytes(&said), None).is_ok()
    }
}

/// Attends to the process of a flow until stopped; the calling thread is in the clients' node.
pub(super) fn attend(
    channel: &Channel,
    (places, sockets): (Places, [UdpSocket; 2]),
    clock: RunClock,
    report: &QuicReport,
    stop: &AtomicBool,
) -> io::Result<()> {
    let [client, server] = &sockets;
    channel.send(&bytes(&[clock.origin.as_nanos()]), Some(client.as_fd())).map_err(gone)?;
    channel.send(HERE, Some(server.as_fd())).map_err(gone)?;
    drop(sockets);
    // The first has its socket.
    let mut next = 1;
    while !stop.load(Ordering::Relaxed) {
        let Some(message) = channel.within(timespec(LOOK)).map_err(gone)? else { continue };
        if message.descriptor.is_some() || !message.bytes.len().is_multiple_of(size_of::<u64>()) {
            return Err(io::Error::other(NONSENSE));
        }
        match numbers(&message.bytes)[..] {
            [progress, received, has_ended] => {
                let progress = f64::from_bits(progress);
                // Faulty code may have overwritten it.
                let progress = if progress.is_nan() { 0.0 } else { progress.clamp(0.0, 1.0) };
                report.hear(FlowStanding { progress, received, has_ended: has_ended != 0 });
            }
            [connection] if connection == next => {
                next += 1;
                let answered = match places.open(connection) {
                    Ok(socket) => channel.send(HERE, Some(socket.as_fd())),
                    Err(error) => channel.send(error.to_string().as_bytes(), None),
                };
                answered.map_err(gone)?;
            }
            [connection] => {
                let why =
                    format!("its process asks for connection {connection}, where {next} is the next; {OVERWRITES}");
                return Err(io::Error::other(why));
            }
            _ => return Err(io::Error::other(NONSENSE)),
        }
    }
    Ok(())
}

/// Says why a process cannot be attended to any more.
fn gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            io::Error::other("its process has ended")
        }
        // The limit of the channel's patience.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::other("its process does not read any more"),
        _ => error,
    }
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

const NONSENSE: &str = "its process says what nobody understands; the code overwrites memory";
const OVERWRITES: &str = "the code overwrites memory";
/// Says that a socket is there.
const HERE: &[u8] = b"socket";
/// Sockets that the process of a flow may have: one for each connection, and the server's.
pub const MOST_SOCKETS: u64 = Ports::DISTINCT as u64 + 1;
