//! The queue of the satellite link: a thread that divides the link's rate between subscribers and their connections.
//!
//! It looks at the connections that are active, and limits their sockets: what they send by the rate of the kernel's pacing, what they are
//! sent by the window that they offer. Workers go on as without it: what a socket does not take is not read from the other leg. So bytes
//! pass without a lock, and without a copy.

mod flow;
mod joint;
mod modem;
mod rates;
mod report;
mod shaper;
mod subscribers;
mod told;

use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use perigee_units::{Rate, Time};

use self::flow::Flow;
pub(crate) use self::joint::{say, understand, Claim, Joint, Parts};
use self::rates::Source;
pub(crate) use self::report::Report;
use self::shaper::Shaper;
use self::told::Known;
use crate::config::{Config, Rates, SatelliteLink};
use crate::error::ServiceError;
use crate::host::clock::monotonic;
use crate::shared::log::{quoted, Log};
use crate::shared::tap::ForLink;
use crate::shared::Shared;

/// The thread that divides the link; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Division {
    to_link: Sender<ForLink>,
    joint: Arc<Joint>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the thread.
struct Dividing {
    shared: Arc<Shared>,
    report: Arc<Report>,
    joint: Arc<Joint>,
    work: Option<Work>,
}

/// The link that is divided.
struct Work {
    link: Arc<SatelliteLink>,
    source: Source,
    shaper: Shaper,
    /// The last lines of the log about the rates, the modem and the interface, and when the last of them was written.
    said: [String; 3],
    said_at: Time,
}

impl Division {
    /// Starts the thread, if there is a link; connections that are accepted afterwards are its own.
    pub(crate) fn start(shared: &Arc<Shared>, config: &Arc<Config>, report: &Arc<Report>) -> io::Result<Option<Self>> {
        let Some(link) = &config.link else { return Ok(None) };
        let (to_link, messages) = channel();
        let work = Work::open(config, link, None)?;
        let joint = Arc::<Joint>::default();
        let dividing =
            Dividing { shared: shared.clone(), report: report.clone(), joint: joint.clone(), work: Some(work) };
        let thread = Builder::new().name("pep-link".to_owned()).spawn(move || dividing.run(&messages))?;
        shared.connect_link(to_link.clone());
        Ok(Some(Self { to_link, joint, thread: Some(thread) }))
    }

    /// Its part beside the divisions of other processes.
    pub(crate) fn joint(&self) -> &Joint {
        &self.joint
    }

    /// Changes to another configuration.
    pub(crate) fn configure(&self, config: Arc<Config>) {
        // It fails if the thread has ended.
        let _ = self.to_link.send(ForLink::Configure(config));
    }

    /// Uses these rates from now on.
    pub(crate) fn tell(&self, rates: Rates) {
        // As above.
        let _ = self.to_link.send(ForLink::Rates(rates));
    }
}

impl Drop for Division {
    fn drop(&mut self) {
        let _ = self.to_link.send(ForLink::Stop);
        // A panic has ended the program, or was printed where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Checks the files that the source of rates needs.
///
/// # Errors
/// With the line of the configuration, and the fix.
pub(crate) fn check(config: &Config) -> Result<(), ServiceError> {
    let checked = config.link.as_deref().map_or(Ok(()), rates::check);
    checked.map_err(|error| ServiceError::Input(error.to_string()))
}

impl Dividing {
    fn run(mut self, messages: &Receiver<ForLink>) {
        let mut due = monotonic();
        loop {
            let is_idle = self.work.as_ref().is_none_or(|work| work.shaper.is_idle());
            let pause = if is_idle { IDLE } else { due - monotonic() };
            match messages.recv_timeout(Duration::from_nanos(pause.as_nanos())) {
                Ok(ForLink::Active(tap)) => match &mut self.work {
                    Some(work) => work.shaper.add(tap, monotonic()),
                    None => Flow::new(tap, 0, monotonic()).let_go(),
                },
                Ok(ForLink::Configure(config)) => self.configure(&config),
                Ok(ForLink::Rates(rates)) => {
                    self.work.iter_mut().for_each(|work| work.source = Source::Fixed(rates));
                }
                Ok(ForLink::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = monotonic();
            if now >= due {
                self.divide(now);
                due = now + TICK;
            }
        }
        if let Some(work) = self.work {
            work.shaper.let_go();
        }
    }

    fn divide(&mut self, now: Time) {
        let Some(work) = &mut self.work else { return };
        let seen = work.source.rates(work.link.oldest, now);
        match &seen {
            Ok((rates, _)) => work.shaper.divide(*rates, &self.joint, now),
            Err(_) => work.shaper.divide(Rates::default(), &self.joint, now),
        }
        work.say(&seen, &self.shared.log, now);
        work.shaper.read(&self.report, seen, now);
    }

    fn configure(&mut self, config: &Arc<Config>) {
        let old = self.work.take();
        // The file of slots may have changed without them.
        let is_same = |work: &Work| {
            config.link.as_ref().is_some_and(|link| link.is_as(&work.link)) && !matches!(work.source, Source::Slots(_))
        };
        if old.as_ref().is_some_and(is_same) {
            self.work = old;
            return;
        }
        self.report.clear();
        self.joint.put(Claim::default(), Vec::new());
        let (before, shaper) = old.map(|work| ((work.link, work.source), work.shaper)).unzip();
        let was_at = before.as_ref().map(|(link, _): &(Arc<SatelliteLink>, Source)| link.leg.clone());
        let opened = config.link.as_ref().map(|link| Work::open(config, link, before));
        if let Some(Err(error)) = &opened {
            self.shared.log.line(format!("link not shared reason={}", quoted(error.to_string())));
        }
        self.work = opened.and_then(Result::ok);
        match (&mut self.work, shaper) {
            // Without its limit, one that waits for its turn would send all that it has.
            (Some(work), Some(shaper)) if was_at.as_ref() == Some(&work.link.leg) => work.shaper.adopt(shaper),
            (_, shaper) => shaper.into_iter().for_each(Shaper::let_go),
        }
    }
}

impl Work {
    /// Divides a link. Of the link before, the modem stays if it is the same, and the rates until a modem has said others.
    fn open(
        config: &Arc<Config>,
        link: &Arc<SatelliteLink>,
        old: Option<(Arc<SatelliteLink>, Source)>,
    ) -> io::Result<Self> {
        let now = monotonic();
        let source = match old {
            Some((old, source @ Source::Modem(..))) if old.source == link.source => source,
            old => {
                let known = old.and_then(|(old, source)| source.rates(old.oldest, now).ok());
                Source::open(link, known.map(|(rates, age)| (rates, now - age)))?
            }
        };
        let shaper = Shaper::new(config.clone(), link.clone(), now);
        // Without a word, the modem answers and the interface counts.
        let said = [String::new(), of_modem(None), of_interface(&link.interface, None)];
        Ok(Self { link: link.clone(), source, shaper, said, said_at: Time::ZERO })
    }

    /// Logs what has changed; not more than once in a second, since a modem may say anything.
    fn say(&mut self, seen: &Known, log: &Log, now: Time) {
        if now < self.said_at + SECOND {
            return;
        }
        let of_rates = match seen {
            Ok(_) => SHARED.to_owned(),
            Err(why) => format!("link not shared reason={}", quoted(why)),
        };
        // That nothing is shared has its reason already.
        let of_modem = if seen.is_ok() { of_modem(self.source.failure()) } else { self.said[1].clone() };
        let of_interface = of_interface(&self.link.interface, self.shaper.missing());
        for (said, line) in self.said.iter_mut().zip([of_rates, of_modem, of_interface]) {
            if *said == line {
                continue;
            }
            // The rates may change all the time.
            let rates = seen.as_ref().ok().filter(|_| line == SHARED).map(|(rates, _)| {
                let word = |rate: Option<Rate>| quoted(rate.map_or("-".to_owned(), |rate| rate.to_string()));
                format!(" send={} receive={}", word(rates.send), word(rates.receive))
            });
            log.line(line.clone() + &rates.unwrap_or_default());
            (*said, self.said_at) = (line, now);
        }
    }
}

fn of_modem(failure: Option<String>) -> String {
    failure.map_or("link modem answers".to_owned(), |why| format!("link modem silent reason={}", quoted(why)))
}

fn of_interface(name: &str, missing: Option<&str>) -> String {
    missing.map_or_else(
        || format!("link counted interface={name}"),
        |why| format!("link not counted interface={name} reason={}", quoted(why)),
    )
}

/// Time between divisions while connections are active, and between looks at the modem while none is.
const TICK: Time = Time::from_millis(20);
const IDLE: Time = Time::from_millis(200);
/// Line of the log, without the rates.
const SHARED: &str = "link shared";
/// Time between lines of the log.
const SECOND: Time = Time::from_secs(1);
