//! Has a reader of a fast stream woken once for several packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use perigee_units::Time;

/// What the kernel lets gather before it wakes the reader of a socket (`SO_RCVLOWAT`): what comes in [`GATHERED`].
///
/// To wake a thread costs the driver's thread, in whose calls packets are received, as much as everything else that it
/// does for a packet. Acknowledgements and the window do not wait for the reader: the kernel sends them as if it had read
/// what is below the mark.
#[derive(Debug)]
pub(crate) struct LowWater {
    /// Bytes; 1 is the kernel's own.
    mark: u64,
    /// Since when `bytes` were read.
    since: Time,
    bytes: u64,
}

impl LowWater {
    /// Of a socket that has just been made.
    pub(crate) fn new(now: Time) -> Self {
        Self { mark: 1, since: now, bytes: 0 }
    }

    /// So many bytes have been read; sets the socket's mark where the stream has become faster or slower.
    pub(crate) fn read(&mut self, now: Time, bytes: u64, socket: &impl AsFd) {
        if let Some(mark) = self.next(now, bytes) {
            // Where it is refused the reader is woken more often.
            let _ = set(socket, mark);
        }
    }

    fn next(&mut self, now: Time, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        let spent = now.checked_sub(self.since).unwrap_or_default();
        if spent < LOOKED_AT {
            return None;
        }
        let gathered = self.bytes * GATHERED.as_nanos() / spent.as_nanos();
        (self.since, self.bytes) = (now, 0);
        let mark = if gathered < LEAST { 1 } else { gathered.min(MOST) };
        let differs = mark > self.mark + self.mark / 4 || mark < self.mark - self.mark / 4;
        differs.then(|| {
            self.mark = mark;
            mark
        })
    }
}

fn set(socket: &impl AsFd, mark: u64) -> io::Result<()> {
    let mark = mark as libc::c_int;
    // SAFETY: the kernel reads an int.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const mark).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How late a reader may be.
const GATHERED: Time = Time::from_micros(200);
/// Over which a stream's speed is looked at.
const LOOKED_AT: Time = Time::from_millis(5);
/// Two packets, bytes: a slower stream wakes its reader for each.
const LEAST: u64 = 3_000;
/// Bytes; half of it is below the smallest receive buffer there is, so that no buffer grows by the mark.
const MOST: u64 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark after a second at so many bits per second.
    fn after(low: &mut LowWater, start: Time, mbps: u64) -> u64 {
        for ms in 1..=1000 {
            low.next(start + Time::from_millis(ms), mbps * 1000 / 8);
        }
        low.mark
    }

    #[test]
    fn a_reader_is_woken_by_each_packet_of_a_slow_stream_and_every_200_us_of_a_fast_one() {
        let mut low = LowWater::new(Time::ZERO);
        assert_eq!(after(&mut low, Time::ZERO, 20), 1);
        let fast = after(&mut low, Time::from_secs(1), 800);
        assert!((18_000..22_000).contains(&fast), "{fast}");
        assert_eq!(after(&mut low, Time::from_secs(2), 100_000), MOST);
        assert_eq!(after(&mut low, Time::from_secs(3), 20), 1);
    }
}
