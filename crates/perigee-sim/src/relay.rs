//! A proxy between two legs of a connection.
//!
//! It reads from its receive buffer as much as it may hold for the next leg: up to its `buffer` per connection and direction, and up to its
//! `memory` in total. Unread data close the window of the previous leg. It passes on the end of a stream after its last byte, and a failed
//! leg as a reset of the other.

use perigee_tcp::{Endpoint, Failure, Segment};
use perigee_traffic::End;
use perigee_units::Time;

use crate::application::Stream;
use crate::connection::Connection;
use crate::proxy::Pipe;
use crate::shaper::{Account, ProxyEnd};
use crate::world::World;

/// A proxy between two legs.
pub(crate) struct Relay {
    pub(crate) proxy: u32,
    /// The end of the session that opens its legs.
    opener: End,
    /// Event source to wake when the proxy has memory again.
    memory: u32,
    is_open: bool,
    /// With `connect-first`: the SYN that waits for the next leg.
    request: Option<Segment>,
    /// A leg failed, and the other one was informed.
    has_failed: bool,
    /// The data, and the reverse direction.
    pipes: [Pipe; 2],
    /// Counters of its ends in these directions, where it owns a queue.
    accounts: [Account; 2],
}

/// A proxy with the legs on both sides of it.
pub(crate) struct Junction<'a> {
    pub(crate) relay: &'a mut Relay,
    pub(crate) up: &'a mut Connection,
    pub(crate) down: &'a mut Connection,
}

impl Relay {
    pub(crate) fn new(proxy: u32, opener: End, memory: u32) -> Self {
        Self {
            proxy,
            opener,
            memory,
            is_open: false,
            request: None,
            has_failed: false,
            pipes: Default::default(),
            accounts: Default::default(),
        }
    }

    /// Whether a SYN waits until the next leg is established, for a proxy that connects first.
    pub(crate) fn keeps_request(&mut self, request: Option<Segment>) -> bool {
        let keeps = !self.is_open || self.request.is_some();
        if keeps {
            self.request = request;
        }
        keeps
    }

    /// The connection is gone: releases what the proxy holds of it.
    pub(crate) fn abandon(&mut self, now: Time, world: &mut World) {
        let proxy = &mut world.proxies[self.proxy as usize];
        self.pipes.iter_mut().for_each(|pipe| pipe.drop_held(proxy));
        if proxy.has_room_again() {
            self.wake_waiting(now, world);
        }
    }

    /// Passes on data in both directions between two established legs; returns whether there were any.
    #[inline(always)]
    fn pump(&mut self, now: Time, receiving: &mut Endpoint, sending: &mut Endpoint, world: &mut World) -> bool {
        let (proxy, [data, back]) = (&mut world.proxies[self.proxy as usize], &mut self.pipes);
        let has_passed = data.pump(now, receiving, sending, proxy, self.memory);
        let has_passed = back.pump(now, sending, receiving, proxy, self.memory) | has_passed;
        if proxy.has_room_again() {
            self.wake_waiting(now, world);
        }
        has_passed
    }

    /// Opens the next leg, answers for it, or passes on a failure, until both legs are established and no request waits. Returns whether it
    /// has done anything, and whether it has opened the leg.
    fn connect(&mut self, now: Time, receiving: &mut Endpoint, sending: &mut Endpoint) -> [bool; 2] {
        let (accepting, connecting) = if self.opener == End::To { (sending, receiving) } else { (receiving, sending) };
        let opens = !self.is_open && !self.has_failed && (accepting.is_established() || self.request.is_some());
        if opens {
            self.is_open = true;
            connecting.open(now);
        }
        [opens | self.answer(now, accepting, connecting), opens]
    }

    /// Wakes the sessions that wait for memory.
    #[cold]
    fn wake_waiting(&self, now: Time, world: &mut World) {
        let waiting = world.proxies[self.proxy as usize].take_waiting();
        waiting.for_each(|source| world.network.queue.set(source, now));
    }

    /// Whether both legs are established, and no request waits.
    #[inline(always)]
    fn is_settled(&self, receiving: &Endpoint, sending: &Endpoint) -> bool {
        self.request.is_none() && receiving.is_established() && sending.is_established()
    }

    /// Completes the handshake of the accepting end if it waited for the next leg, and passes on a failure. Returns whether it did either.
    fn answer(&mut self, now: Time, accepting: &mut Endpoint, connecting: &mut impl Stream) -> bool {
        let mut has_answered = false;
        if connecting.is_established()
            && let Some(request) = self.request.take()
        {
            accepting.on_segment(now, &request, false);
            has_answered = true;
        }
        if self.has_failed {
            return has_answered;
        }
        match (accepting.failure(), connecting.failure()) {
            (_, Some(failure)) => {
                self.has_failed = true;
                match self.request.take() {
                    Some(request) if failure == Failure::Refused => accepting.refuse_request(&request),
                    // An end that does not answer gets no answer on its behalf.
                    Some(_) => {}
                    None => accepting.abort(),
                }
            }
            (Some(_), None) => {
                self.has_failed = true;
                connecting.abort();
            }
            (None, None) => return has_answered,
        }
        true
    }
}

impl Junction<'_> {
    /// Sends what the `active` end at the proxy, to which something has happened, has to send; then passes on what both ends have received.
    /// Returns whether that opens the next leg. The ends have processed everything else.
    #[inline(always)]
    pub(crate) fn serve(mut self, now: Time, active: Option<End>, world: &mut World) -> bool {
        if let Some(end) = active {
            self.leg(end).transmit(now, end, world);
        }
        let Self { relay, up, down } = &mut self;
        let has_passed = match ends(up, down) {
            Some([receiving, sending]) if relay.is_settled(receiving, sending) => {
                relay.pump(now, receiving, sending, world)
            }
            _ => return self.serve_unsettled(now, active, world),
        };
        self.settle(now, active, has_passed, world);
        false
    }

    /// [`Junction::serve`] while a leg is not established or has failed.
    #[cold]
    fn serve_unsettled(mut self, now: Time, active: Option<End>, world: &mut World) -> bool {
        let Self { relay, up, down } = &mut self;
        let (mut has_acted, mut opens) = (false, false);
        if let Some([receiving, sending]) = ends(up, down) {
            [has_acted, opens] = relay.connect(now, receiving, sending);
            if receiving.is_established() && sending.is_established() {
                has_acted |= relay.pump(now, receiving, sending, world);
            } else if relay.has_failed {
                relay.abandon(now, world);
            }
        }
        self.settle(now, active, has_acted, world);
        opens
    }

    /// Both ends send if the proxy `has_acted`, and the timer events of those follow that may have another deadline.
    #[inline(always)]
    fn settle(mut self, now: Time, active: Option<End>, has_acted: bool, world: &mut World) {
        if has_acted {
            for end in [End::To, End::From] {
                self.leg(end).transmit(now, end, world);
                self.leg(end).schedule(end, world);
            }
        } else if let Some(end) = active {
            self.leg(end).schedule(end, world);
        }
    }

    /// The two ends at the proxy, if both legs are established: that which sends the data on, and that of the reverse direction.
    pub(crate) fn ends(&mut self) -> Option<[ProxyEnd<'_>; 2]> {
        let outlets = [self.down.outlet(End::From), self.up.outlet(End::To)];
        let Relay { proxy, accounts: [data, back], .. } = &mut *self.relay;
        let [receiving, sending] = ends(self.up, self.down)?;
        if !(receiving.is_established() && sending.is_established()) {
            return None;
        }
        let unread = [receiving.unread(), sending.unread()];
        let end = |at: usize, host, account| ProxyEnd {
            proxy: *proxy,
            outlet: outlets[at],
            host,
            unread: unread[at],
            account,
        };
        Some([end(0, sending, data), end(1, receiving, back)])
    }

    /// The leg of an end at the proxy.
    #[inline(always)]
    pub(crate) fn leg(&mut self, end: End) -> &mut Connection {
        match end {
            End::To => self.up,
            End::From => self.down,
        }
    }
}

/// The ends of two legs at the proxy between them: that which receives the data, and that which sends them on.
#[inline(always)]
fn ends<'a>(up: &'a mut Connection, down: &'a mut Connection) -> Option<[&'a mut Endpoint; 2]> {
    Some([up.ends[End::To as usize].as_deref_mut()?, down.ends[End::From as usize].as_deref_mut()?])
}
