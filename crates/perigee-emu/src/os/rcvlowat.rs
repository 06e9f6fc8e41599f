//! Wakes the reader of a fast stream once for several packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use perigee_units::Time;

/// The low-water mark of a receiving socket (`SO_RCVLOWAT`): the data of [`GATHERED`].
///
/// A wake-up costs the driver's thread, which delivers packets in its calls, as much as all other work for a packet.
/// Acknowledgements and the window do not wait for the reader: below the mark, the kernel treats the data as read.
#[derive(Debug)]
pub(crate) struct LowWater {
    /// Bytes; 1 is the kernel's default.
    mark: u64,
    /// When the count of `bytes` began.
    since: Time,
    bytes: u64,
}

impl LowWater {
    /// The mark of a new socket.
    pub(crate) fn new(now: Time) -> Self {
        Self { mark: 1, since: now, bytes: 0 }
    }

    /// Counts bytes read, and adapts the mark to the speed of the stream.
    pub(crate) fn read(&mut self, now: Time, bytes: u64, socket: &impl AsFd) {
        if let Some(mark) = self.next(now, bytes) {
            // If it is refused, the reader wakes more often.
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

/// Maximum delay of the reader.
const GATHERED: Time = Time::from_micros(200);
/// Interval over which the speed is measured.
const LOOKED_AT: Time = Time::from_millis(5);
/// Two packets, bytes: the reader of a slower stream wakes for each.
const LEAST: u64 = 3_000;
/// Bytes; half of it is below the smallest receive buffer, so that the mark never grows a buffer.
const MOST: u64 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark after a second at this rate.
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
