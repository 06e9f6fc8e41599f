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
}

/// A proxy with the legs on both sides of it.
pub(crate) struct Junction<'a> {
    pub(crate) relay: &'a mut Relay,
    pub(crate) up: &'a mut Connection,
    pub(crate) down: &'a mut Connection,
}

/// Actions of a proxy.
#[derive(Clone, Copy)]
pub(crate) struct Relayed {
    /// There was something to do; the ends have sent, and their timers are scheduled.
    pub(crate) has_acted: bool,
    /// It has opened the next leg.
    pub(crate) opens: bool,
}

impl Relay {
    pub(crate) fn new(proxy: u32, opener: End, memory: u32) -> Self {
        Self { proxy, opener, memory, is_open: false, request: None, has_failed: false, pipes: Default::default() }
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
        self.wake_waiting(now, world);
    }

    /// Passes on data in both directions between two established legs; returns whether there were any.
    #[inline]
    fn pump(&mut self, now: Time, receiving: &mut impl Stream, sending: &mut impl Stream, world: &mut World) -> bool {
        let (proxy, [data, back]) = (&mut world.proxies[self.proxy as usize], &mut self.pipes);
        let has_passed = data.pump(now, receiving, sending, proxy, self.memory);
        let has_passed = back.pump(now, sending, receiving, proxy, self.memory) | has_passed;
        self.wake_waiting(now, world);
        has_passed
    }

    /// Wakes the sessions that wait for memory, if there is any again.
    #[inline]
    fn wake_waiting(&self, now: Time, world: &mut World) {
        let proxy = &mut world.proxies[self.proxy as usize];
        if proxy.has_room_again() {
            proxy.take_waiting().for_each(|source| world.network.queue.set(source, now));
        }
    }

    /// Completes the handshake of the accepting end if it waited for the next leg, and passes on a failure. Returns whether it did either.
    fn answer(&mut self, now: Time, accepting: &mut Endpoint, connecting: &mut impl Stream) -> bool {
        let mut has_answered = false;
        if connecting.is_established() {
            if let Some(request) = self.request.take() {
                accepting.on_segment(now, &request, false);
                has_answered = true;
            }
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
    /// The leg whose end at the proxy is `end`.
    pub(crate) fn leg_of(&mut self, end: End) -> &mut Connection {
        if end == End::To {
            self.up
        } else {
            self.down
        }
    }

    /// Passes on what the ends at the proxy have received, after they have processed everything else.
    #[inline]
    pub(crate) fn relay(&mut self, now: Time, world: &mut World) -> Relayed {
        let nothing = Relayed { has_acted: false, opens: false };
        let Self { relay, up, down } = self;
        let Some([receiving, sending]) = ends(up, down) else { return nothing };
        let mut relayed = nothing;
        if relay.request.is_some() || !receiving.is_established() || !sending.is_established() {
            let (accepting, connecting) = if relay.opener == End::To {
                (&mut *sending, &mut *receiving)
            } else {
                (&mut *receiving, &mut *sending)
            };
            relayed.opens =
                !relay.is_open && !relay.has_failed && (accepting.is_established() || relay.request.is_some());
            if relayed.opens {
                relay.is_open = true;
                connecting.open(now);
            }
            relayed.has_acted = relayed.opens | relay.answer(now, accepting, connecting);
        }
        if receiving.is_established() && sending.is_established() {
            relayed.has_acted |= relay.pump(now, receiving, sending, world);
        } else if relay.has_failed {
            relay.abandon(now, world);
        }
        if relayed.has_acted {
            up.transmit(now, End::To, world);
            up.schedule(End::To, world);
            down.transmit(now, End::From, world);
            down.schedule(End::From, world);
        }
        relayed
    }
}

/// The ends of two legs at the proxy between them: that which receives the data, and that which sends them on.
#[inline]
fn ends<'a>(up: &'a mut Connection, down: &'a mut Connection) -> Option<[&'a mut Endpoint; 2]> {
    Some([up.ends[End::To as usize].as_deref_mut()?, down.ends[End::From as usize].as_deref_mut()?])
}
