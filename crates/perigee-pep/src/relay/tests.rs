use super::*;
use proptest::prelude::*;

/// Two sockets in memory, whose peers write, read, end and fail by events.
#[derive(Debug, Default)]
struct Memory {
    sides: [Socket; 2],
    /// Bytes held of the direction from each side.
    held: [Vec<u8>; 2],
}

#[derive(Debug, Default)]
struct Socket {
    /// Arrived, unread.
    queue: Vec<u8>,
    /// The peer has ended its stream after what is queued.
    ended: bool,
    failed: bool,
    /// Bytes that can be written.
    window: usize,
    /// All that was written.
    written: Vec<u8>,
    finished: bool,
}

impl Carrier for Memory {
    fn receive(&mut self, from: Side, budget: usize) -> io::Result<usize> {
        assert!(self.held[from as usize].is_empty(), "something is held");
        let socket = &mut self.sides[from as usize];
        if socket.queue.is_empty() {
            return match (socket.failed, socket.ended) {
                (true, _) => Err(io::ErrorKind::ConnectionReset.into()),
                (_, true) => Ok(0),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let taken: Vec<u8> = socket.queue.drain(..budget.min(7).min(socket.queue.len())).collect();
        self.held[from as usize] = taken;
        Ok(self.held[from as usize].len())
    }

    fn send(&mut self, from: Side) -> io::Result<usize> {
        let (held, socket) = (&mut self.held[from as usize], &mut self.sides[from.opposite() as usize]);
        assert!(!held.is_empty() && !socket.finished, "bytes before the end of the stream");
        if socket.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let bytes = socket.window.min(held.len());
        if bytes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        socket.window -= bytes;
        socket.written.extend(held.drain(..bytes));
        Ok(bytes)
    }

    fn held(&self, from: Side) -> usize {
        self.held[from as usize].len()
    }

    fn discard(&mut self, from: Side) {
        self.held[from as usize].clear();
    }

    fn finish(&mut self, to: Side) -> io::Result<()> {
        assert!(self.held[to.opposite() as usize].is_empty() && !self.sides[to as usize].finished);
        self.sides[to as usize].finished = true;
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// The peer of a side sends this many bytes.
    Arrives(bool, u8),
    /// The peer of a side reads this many bytes.
    Reads(bool, u8),
    Ends(bool),
}

fn side(is_server: bool) -> Side {
    [Side::Client, Side::Server][usize::from(is_server)]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (any::<bool>(), 1..40u8).prop_map(|(side, bytes)| Event::Arrives(side, bytes)),
        4 => (any::<bool>(), 1..40u8).prop_map(|(side, bytes)| Event::Reads(side, bytes)),
        1 => any::<bool>().prop_map(Event::Ends),
    ];
    proptest::collection::vec(event, 0..60)
}

/// Applies an event as a kernel reports it; `sent` gets what the peer of each side sends.
fn apply(event: &Event, memory: &mut Memory, relay: &mut Relay, sent: &mut [Vec<u8>; 2]) {
    match *event {
        Event::Arrives(at, bytes) => {
            let socket = &mut memory.sides[usize::from(at)];
            if !socket.ended && !socket.failed {
                let first = sent[usize::from(at)].len();
                let data: Vec<u8> = (first..first + usize::from(bytes)).map(|byte| byte as u8).collect();
                socket.queue.extend(&data);
                sent[usize::from(at)].extend(data);
                relay.on_ready(side(at), true, false);
            }
        }
        Event::Reads(at, bytes) => {
            memory.sides[usize::from(at)].window += usize::from(bytes);
            relay.on_ready(side(at), false, true);
        }
        Event::Ends(at) => {
            memory.sides[usize::from(at)].ended = true;
            relay.on_ready(side(at), true, false);
        }
    }
}

/// Advances until an event is needed.
fn settle(relay: &mut Relay, memory: &mut Memory, budget: usize) -> Progress {
    for _ in 0..100_000 {
        match relay.advance(memory, budget) {
            Progress::OutOfBudget => {}
            progress => return progress,
        }
    }
    panic!("never settles");
}

proptest! {
    #[test]
    fn every_byte_arrives_in_order_and_the_end_after_it(events in events(), budget in 1..30usize) {
        let (mut relay, mut memory, mut sent) = (Relay::default(), Memory::default(), <[Vec<u8>; 2]>::default());
        for event in &events {
            apply(event, &mut memory, &mut relay, &mut sent);
            relay.advance(&mut memory, budget);
        }
        // In the end both peers end their streams and read all.
        for event in [Event::Ends(false), Event::Ends(true)] {
            apply(&event, &mut memory, &mut relay, &mut sent);
        }
        for at in [Side::Client, Side::Server] {
            memory.sides[at as usize].window = usize::MAX;
            relay.on_ready(at, false, true);
        }
        prop_assert_eq!(settle(&mut relay, &mut memory, budget), Progress::Complete);
        for from in [Side::Client, Side::Server] {
            let to = &memory.sides[from.opposite() as usize];
            prop_assert_eq!(&to.written, &sent[from as usize]);
            prop_assert!(to.finished);
            prop_assert_eq!(relay.passed(from), sent[from as usize].len() as u64);
        }
    }

    #[test]
    fn a_failure_reaches_the_other_side_after_every_byte_that_came_before_it(
        events in events(),
        fails in any::<bool>(),
        is_seen_in_time in any::<bool>(),
    ) {
        let (mut relay, mut memory, mut sent) = (Relay::default(), Memory::default(), <[Vec<u8>; 2]>::default());
        for event in &events {
            apply(event, &mut memory, &mut relay, &mut sent);
            relay.advance(&mut memory, 10);
        }
        let was_complete = relay.advance(&mut memory, usize::MAX) == Progress::Complete;
        let (failed, other) = (side(fails), side(!fails));
        memory.sides[failed as usize].failed = true;
        relay.on_ready(failed, true, true);
        if is_seen_in_time {
            // Reading the error of a socket clears it: the data then seem to end in order.
            relay.on_failure(failed, &io::ErrorKind::ConnectionReset.into());
            memory.sides[failed as usize].failed = false;
            memory.sides[failed as usize].ended = true;
        }
        memory.sides[other as usize].window = usize::MAX;
        relay.on_ready(other, false, true);
        let was_finished = memory.sides[other as usize].finished;
        let progress = settle(&mut relay, &mut memory, 10);
        if is_seen_in_time {
            prop_assert_eq!(progress, Progress::Reset(other));
            prop_assert_eq!(&memory.sides[other as usize].written, &sent[failed as usize]);
            // An end of the stream is never passed on after a failure.
            prop_assert_eq!(memory.sides[other as usize].finished, was_finished);
        } else if !was_complete && progress == Progress::Reset(other) {
            prop_assert_eq!(&memory.sides[other as usize].written, &sent[failed as usize]);
        }
    }
}

#[test]
fn a_half_closed_connection_still_carries_the_other_direction() {
    let (mut relay, mut memory, mut sent) = (Relay::default(), Memory::default(), <[Vec<u8>; 2]>::default());
    for event in [Event::Arrives(false, 5), Event::Ends(false), Event::Reads(true, 30)] {
        apply(&event, &mut memory, &mut relay, &mut sent);
    }
    assert_eq!(settle(&mut relay, &mut memory, 100), Progress::Waiting);
    assert!(memory.sides[1].finished);
    for event in [Event::Arrives(true, 9), Event::Reads(false, 30), Event::Ends(true)] {
        apply(&event, &mut memory, &mut relay, &mut sent);
    }
    assert_eq!(settle(&mut relay, &mut memory, 100), Progress::Complete);
    assert_eq!(memory.sides[0].written, sent[1]);
}

#[test]
fn a_stream_without_end_leaves_the_turn_to_others_when_its_budget_is_spent() {
    let (mut relay, mut memory) = (Relay::default(), Memory::default());
    memory.sides[0].queue = vec![1; 1000];
    memory.sides[1].window = usize::MAX;
    relay.on_ready(Side::Client, true, true);
    relay.on_ready(Side::Server, true, true);
    assert_eq!(relay.advance(&mut memory, 100), Progress::OutOfBudget);
    assert_eq!(memory.sides[1].written.len(), 100);
}

#[test]
fn when_both_sides_fail_nothing_is_left_to_do() {
    let (mut relay, mut memory) = (Relay::default(), Memory::default());
    memory.held[0] = vec![1];
    for at in [Side::Client, Side::Server] {
        memory.sides[at as usize].failed = true;
        relay.on_failure(at, &io::ErrorKind::TimedOut.into());
    }
    assert_eq!(relay.advance(&mut memory, 100), Progress::Lost);
    assert_eq!((memory.held(Side::Client), relay.failure(Side::Client)), (0, Some(io::ErrorKind::TimedOut)));
}
