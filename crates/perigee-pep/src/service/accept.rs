//! How a worker accepts clients, and dials their servers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use perigee_units::Time;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{acceptfrom_with, getsockname, SocketFlags};

use super::worker::Worker;
use crate::config::{AtLimit, Request, Rule};
use crate::event_loop::Handler as _;
use crate::host::sys;
use crate::legs::connection::SplitConnection;
use crate::legs::socket::{configure, dial, reset_on_close};
use crate::relay::Side;
use crate::shared::account::{in_words, Outcome};
use crate::shared::handover::{Accepted, Dialled};
use crate::shared::permit::Permit;
use crate::shared::stats::End;

/// A client that reuses its port while the older leg to the server has not ended.
pub(super) struct Redial {
    accepted: Accepted,
    dscp: u8,
    began: Time,
    /// When the server is dialled next.
    pub(super) due: Time,
    pause: Time,
}

impl Worker {
    /// Accepts connections that wait at a listening socket.
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(index) else { return };
            let (address, is_transparent) = (listener.address, listener.is_transparent);
            let has_room = self.shared.stats.open.get() < self.shared.connections() as u64;
            if !has_room && self.config.limits.at_limit != AtLimit::Refuse {
                self.pause("the limit of connections is reached");
                return;
            }
            let accepted = acceptfrom_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
            let (client, source) = match accepted {
                Ok((client, source)) => (client, source.and_then(|source| SocketAddr::try_from(source).ok())),
                Err(Errno::AGAIN) => return,
                // The client has gone, or a network error is pending: the next connection may succeed.
                Err(error) if !is_exhausted(error) => continue,
                Err(error) => {
                    self.pause(&format!("no more connections can be accepted: {error}"));
                    return;
                }
            };
            let Some(source) = source else { continue };
            reset_on_close(&client);
            let opened = if has_room {
                self.open(client, source, address, is_transparent)
            } else {
                Err("the limit of connections is reached".to_owned())
            };
            if let Err(reason) = opened {
                self.shared.refuse(&format!("client={source} listener={address} reason=\"{reason}\""));
            }
        }
    }

    /// Serves an accepted client: its server has answered already, or is dialled, or the tunnel carries it. The error says why not.
    fn open(
        &mut self,
        client: OwnedFd,
        source: SocketAddr,
        address: SocketAddr,
        is_transparent: bool,
    ) -> Result<(), String> {
        let destination = self.destination(&client, address, is_transparent)?;
        let ends = [source, destination];
        if is_transparent && self.config.connects_first() {
            if let Some(dialled) = self.shared.take_dialled(ends) {
                self.join(client, dialled, ends);
                return Ok(());
            }
        }
        self.check(source, destination)?;
        let found = self.rule(&client, source, destination);
        let (rule, dscp) = found.map_err(|error| format!("its arrival is unknown: {error}"))?;
        let rule = rule.ok_or("no rule")?;
        let permit = self.admit(&client, source, &rule, dscp)?;
        let accepted = Accepted { client, ends, rule, permit };
        if accepted.rule.is_tunnelled {
            self.shared.carry(accepted);
            return Ok(());
        }
        let seen = if is_transparent { self.config.seen(source) } else { None };
        let began = self.event_loop.now();
        match self.dial(&accepted.rule, seen, destination, dscp) {
            Ok(server) => self.connect(accepted, server, began),
            Err(error) if seen.is_some() && is_taken(&error) => {
                self.redials.push(Redial { accepted, dscp, began, due: began, pause: FIRST_PAUSE });
            }
            Err(error) => return Err(format!("server {destination} {}: {error}", in_words(error.kind()))),
        }
        Ok(())
    }

    /// Adds the connection of a client whose server was dialled.
    fn connect(&mut self, accepted: Accepted, server: OwnedFd, began: Time) {
        let Accepted { client, ends, rule, permit } = accepted;
        let account = self.shared.account(ends, rule, began, Some(permit));
        self.add(SplitConnection::new([client, server], account));
    }

    /// The server that a client asks for.
    fn destination(&self, client: &OwnedFd, address: SocketAddr, is_transparent: bool) -> Result<SocketAddr, String> {
        if is_transparent {
            let name = getsockname(client).map_err(|error| error.to_string())?;
            return SocketAddr::try_from(name).map_err(|error| error.to_string());
        }
        let forward = self.config.forwards.iter().find(|forward| forward.listen == address);
        Ok(forward.ok_or("it is no longer configured")?.target)
    }

    /// Serves a client whose server has answered already.
    fn join(&mut self, client: OwnedFd, dialled: Dialled, ends: [SocketAddr; 2]) {
        let Dialled { server, rule, dscp, times: [began, connected] } = dialled;
        let [source, _] = ends;
        let _ = sys::stop_reporting_arrival(&client, source.is_ipv6());
        match self.admit(&client, source, &rule, dscp) {
            Ok(permit) => {
                let account = self.shared.account(ends, rule, began, Some(permit));
                self.add(SplitConnection::answered([client, server], account, connected));
            }
            Err(reason) => self.shared.refuse_client(ends, reason),
        }
    }

    /// Gives a client its place and the settings of its leg; the error says why not.
    fn admit(&self, client: &OwnedFd, source: SocketAddr, rule: &Rule, dscp: u8) -> Result<Permit, &'static str> {
        let permit = self.shared.clients.permit(source.ip(), self.config.limits.per_client);
        let permit = permit.ok_or("the limit of connections of the client is reached")?;
        configure(&rule.client, client, source.is_ipv6(), dscp, &self.shared.log);
        Ok(permit)
    }

    /// Dials the servers of clients that reuse their ports, if the older connections have ended: at most [`REDIALLED_AT_ONCE`]
    /// per turn.
    pub(super) fn redial(&mut self) {
        let now = self.event_loop.now();
        if self.redials.iter().all(|redial| redial.due > now) {
            return;
        }
        let all = std::mem::take(&mut self.redials).into_iter();
        let (mut due, mut later): (Vec<Redial>, Vec<Redial>) = all.partition(|redial| redial.due <= now);
        later.extend(due.drain(REDIALLED_AT_ONCE.min(due.len())..));
        self.redials = later;
        self.clear(&due.iter().map(|redial| (redial.accepted.ends, redial.began)).collect());
        for mut redial in due {
            let Accepted { ends: ends @ [source, destination], ref rule, .. } = redial.accepted;
            match self.dial(rule, Some(source), destination, redial.dscp) {
                Ok(server) => self.connect(redial.accepted, server, redial.began),
                Err(error) if is_taken(&error) && now < redial.began + rule.connect_timeout => {
                    redial.due = now + redial.pause;
                    redial.pause = (redial.pause * 2).min(LAST_PAUSE);
                    self.redials.push(redial);
                }
                Err(error) => {
                    let reason = format!("server {destination} {}: {error}", in_words(error.kind()));
                    self.shared.refuse_client(ends, &reason);
                }
            }
        }
    }

    /// Ends the older connections between these addresses, whose clients are gone, as soon as none of their bytes can be lost: at
    /// once if all is acknowledged; if only the end of the stream is not, after the time for that since the client reused its port.
    fn clear(&mut self, ends: &HashMap<[SocketAddr; 2], Time>) {
        let now = self.event_loop.now();
        for key in self.event_loop.keys() {
            let Some(connection) = self.event_loop.get_mut(key) else { continue };
            let Some(began) = ends.get(&connection.account.ends) else { continue };
            self.turn(key);
            let Some(connection) = self.event_loop.get_mut(key) else { continue };
            if connection.awaits_last_acknowledgement().is_some_and(|patience| now >= *began + patience) {
                reset_on_close(connection.sockets.of(Side::Server));
                let reason = "complete; the client uses its port again".to_owned();
                self.end(key, &Outcome { end: End::Complete, reason });
            }
        }
    }

    /// Starts to connect to a server, which sees the address `seen`.
    fn dial(&self, rule: &Rule, seen: Option<SocketAddr>, destination: SocketAddr, dscp: u8) -> io::Result<OwnedFd> {
        dial(&rule.server, seen, destination, self.config.own_mark(), dscp, &self.shared.log)
    }

    /// Checks that the configuration allows the connection, and that it does not lead back here.
    fn check(&self, source: SocketAddr, destination: SocketAddr) -> Result<(), String> {
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), sys::is_own) {
            return Err(format!("{destination}: {reason}"));
        }
        let listens = self.listeners.iter().any(|listener| listener.address.port() == destination.port());
        if listens && sys::is_own(destination.ip()) {
            return Err(format!("{destination}: it leads back to this service"));
        }
        Ok(())
    }

    /// The rule of a connection, and the code point of its client.
    fn rule(
        &self,
        client: &OwnedFd,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> io::Result<(Option<Arc<Rule>>, u8)> {
        let arrival = sys::Arrival::of(client, source.is_ipv6())?;
        sys::stop_reporting_arrival(client, source.is_ipv6())?;
        let is_asked = arrival.interface > 0 && self.config.rules.iter().any(|rule| !rule.interfaces.is_empty());
        let interface = is_asked.then(|| index_to_name(client, arrival.interface).ok()).flatten();
        let request = Request { source, destination, interface: interface.as_deref(), dscp: arrival.dscp };
        Ok((self.config.rule(&request).cloned(), arrival.dscp))
    }
}

/// Whether a resource of the system is exhausted, so that accepting again at once is useless.
fn is_exhausted(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}

/// Whether a connection between the same addresses and ports still exists.
fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
}

/// Connections accepted per turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// Time to the second attempt of a client that reuses its port; it doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Time = Time::from_millis(2);
const LAST_PAUSE: Time = Time::from_millis(100);
/// Servers redialled per turn.
const REDIALLED_AT_ONCE: usize = 32;
