//! The playout buffer of a video player: its content, its room, and stalls of the picture.

use perigee_units::Time;

/// A player whose segments arrive one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Playback {
    /// Playing time in the buffer at which playback starts, and resumes after a stall.
    startup: Time,
    state: State,
    /// From the beginning of the flow to the first picture; `None` before it.
    pub(crate) startup_delay: Option<Time>,
    pub(crate) stalls: u32,
    /// Length of past stalls.
    stalled: Time,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The picture waits since an instant, with this playing time in the buffer.
    Waiting { since: Time, buffered: Time },
    /// The picture plays; the buffer is empty at this instant without arrivals.
    Playing { until: Time },
}

impl Playback {
    /// The player of a flow that begins at `start`.
    pub(crate) fn new(start: Time, startup: Time) -> Self {
        let state = State::Waiting { since: start, buffered: Time::ZERO };
        Self { startup, state, startup_delay: None, stalls: 0, stalled: Time::ZERO }
    }

    /// Adds a segment of this length; the last one starts playback with any content of the buffer.
    pub(crate) fn arrive(&mut self, now: Time, segment: Time, is_last: bool) {
        self.run_to(now);
        match &mut self.state {
            State::Playing { until } => *until += segment,
            State::Waiting { since, buffered } => {
                *buffered += segment;
                if *buffered >= self.startup || is_last {
                    let waited = now - *since;
                    match self.startup_delay {
                        None => self.startup_delay = Some(waited),
                        Some(_) => self.stalled += waited,
                    }
                    self.state = State::Playing { until: now + *buffered };
                }
            }
        }
    }

    /// Advances to `now`: the picture stalls if the buffer ran empty before.
    fn run_to(&mut self, now: Time) {
        if let State::Playing { until } = self.state
            && until < now
        {
            self.stalls += 1;
            self.state = State::Waiting { since: until, buffered: Time::ZERO };
        }
    }

    /// Playing time in the buffer.
    pub(crate) fn buffered(&self, now: Time) -> Time {
        match self.state {
            State::Waiting { buffered, .. } => buffered,
            State::Playing { until } => until - now,
        }
    }

    /// When a buffer of this length has room for a segment; a waiting player requests at once.
    pub(crate) fn has_room_at(&self, now: Time, buffer: Time, segment: Time) -> Time {
        match self.state {
            State::Waiting { .. } => now,
            State::Playing { until } => until + segment - buffer,
        }
    }

    /// Number and length of the stalls up to `now`, with or without missing segments.
    pub(crate) fn stalls_by(mut self, now: Time, is_whole: bool) -> (u32, Time) {
        if !is_whole {
            self.run_to(now);
        }
        let open = match self.state {
            State::Waiting { since, .. } if self.startup_delay.is_some() => now - since,
            _ => Time::ZERO,
        };
        (self.stalls, self.stalled + open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Time = Time::from_secs;

    #[test]
    fn a_player_stalls_from_the_last_picture_to_the_segment_that_it_lacks() {
        let mut player = Playback::new(S(1), S(4));
        player.arrive(S(3), S(4), false);
        assert_eq!((player.startup_delay, player.buffered(S(5))), (Some(S(2)), S(2)));
        // Empty at 7 s; the next segment arrives at 10 s, another one in time.
        player.arrive(S(10), S(4), false);
        player.arrive(S(12), S(4), false);
        assert_eq!((player.buffered(S(12)), player.stalls_by(S(18), true)), (S(6), (1, S(3))));
        assert_eq!(player.stalls_by(S(20), false), (2, S(5)), "empty at 18 s, and a segment is missing");
    }

    #[test]
    fn playback_waits_for_as_much_as_it_is_told_at_first_and_after_a_stall() {
        let mut player = Playback::new(S(0), S(8));
        player.arrive(S(1), S(4), false);
        assert_eq!((player.startup_delay, player.has_room_at(S(1), S(4), S(4))), (None, S(1)));
        player.arrive(S(2), S(4), false);
        assert_eq!(player.startup_delay, Some(S(2)));
        assert_eq!(player.has_room_at(S(2), S(9), S(4)), S(5), "7 s, 3 s and then 4 s are in the buffer");
        player.arrive(S(11), S(4), false);
        assert_eq!(player.stalls_by(S(12), false), (1, S(2)));
        player.arrive(S(13), S(4), true);
        assert_eq!(player.stalls_by(S(13), true), (1, S(3)));
    }
}
