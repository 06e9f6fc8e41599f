//! The event loop of a thread: its tasks, whose sockets are ready, whose turn it is or whose timer is due, and orders of other threads.
//!
//! A thread implements [`Handler`], whose provided methods are the loop. It is compiled for each handler: no event allocates memory or
//! calls through a pointer.

pub(crate) mod slab;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread::JoinHandle;

use perigee_units::Time;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{eventfd, EventfdFlags, Timespec};
use rustix::io::Errno;

pub(crate) use self::slab::Key;
use self::slab::Slab;
use crate::host::clock::monotonic;
use crate::host::threads::start_thread;

/// The tasks of a thread, of type `T`, and what they wait for; `O` are the orders that other threads give.
#[derive(Debug)]
pub(crate) struct EventLoop<T, O> {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command<O>>,
    tasks: Slab<Scheduled<T>>,
    /// Tasks that have their turn in the next round.
    ready: VecDeque<Key>,
    timers: BTreeSet<(Time, Key)>,
    is_draining: bool,
    now: Time,
}

/// A task of an event loop, such as a connection.
pub(crate) trait Task {
    /// The sockets that it waits for, at most two.
    fn sockets(&self) -> &[OwnedFd];
}

/// The work of a thread with its event loop.
pub(crate) trait Handler: Sized {
    /// The tasks that it serves.
    type Task: Task;
    /// Orders of other threads beside the end.
    type Order;
    /// How a task ends; an error if the system refuses to watch its sockets.
    type Outcome: From<io::Error>;

    /// Its event loop.
    fn event_loop(&mut self) -> &mut EventLoop<Self::Task, Self::Order>;

    /// Handles an event of the socket that [`EventLoop::watch`] was given with this number.
    fn on_source(&mut self, number: u64);

    /// Handles an event of a task's socket, unless the task was removed since the event arrived; `Err` if it has ended. Otherwise it
    /// has its turn in this round.
    fn on_event(&mut self, key: Key, socket: usize, event: Readiness) -> Result<(), Self::Outcome>;

    /// Gives a task its turn; `Err` if it has ended.
    fn advance(&mut self, key: Key) -> Result<Turn, Self::Outcome>;

    /// Removes a task.
    fn end(&mut self, key: Key, outcome: &Self::Outcome);

    /// Executes an order.
    fn obey(&mut self, order: Self::Order) -> io::Result<()>;

    /// Starts to drain: the thread ends after its last task.
    fn drain(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends what is left when the thread ends.
    fn close(&mut self, done: &io::Result<()>);

    /// Whether it has no work beside its tasks.
    fn is_idle(&self) -> bool {
        true
    }

    /// When its own work is due, beside the timers of tasks.
    fn next(&mut self) -> Option<Time> {
        None
    }

    /// Does its own work of a round that precedes the turns.
    fn before_turns(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Does its own work of a round that follows the turns.
    fn after_turns(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Runs the loop until it is aborted, or drained.
    fn run(mut self) -> io::Result<()> {
        let done = self.serve();
        self.close(&done);
        done
    }

    /// Watches the sockets of a new task, and gives it its first turn.
    fn begin(&mut self, key: Key) {
        match self.event_loop().watch_task(key) {
            Ok(()) => self.turn(key),
            Err(error) => self.end(key, &error.into()),
        }
    }

    /// Gives a task its turn, and another one in the next round if it needs that.
    fn turn(&mut self, key: Key) {
        match self.advance(key) {
            Ok(Turn::Again) => self.event_loop().queue(key),
            Ok(Turn::Wait(timer)) => self.event_loop().set_timer(key, timer),
            Err(outcome) => self.end(key, &outcome),
        }
    }

    /// The rounds of the loop: events, turns, timers.
    fn serve(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let next = self.next();
            self.event_loop().wait(&mut events, next)?;
            if events.iter().any(|event| event.data.u64() == WAKE) && self.obey_all()? {
                return Ok(());
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => {}
                    data if data & SOURCE != 0 => self.on_source(data & !SOURCE),
                    data => self.dispatch(data, event.flags),
                }
            }
            self.before_turns()?;
            // Those queued meanwhile have their turn in the next round.
            for _ in 0..self.event_loop().ready.len() {
                if let Some(key) = self.event_loop().pop_ready() {
                    self.turn(key);
                }
            }
            while let Some(key) = self.event_loop().pop_due() {
                self.turn(key);
            }
            self.after_turns()?;
            let event_loop = self.event_loop();
            if event_loop.is_draining && event_loop.tasks.len() == 0 && self.is_idle() {
                return Ok(());
            }
        }
    }

    /// Hands the event of a task's socket over.
    fn dispatch(&mut self, data: u64, flags: EventFlags) {
        let (key, is_second) = Key::from_data(data);
        match self.on_event(key, usize::from(is_second), Readiness::of(flags)) {
            Ok(()) => self.event_loop().queue(key),
            Err(outcome) => self.end(key, &outcome),
        }
    }

    /// Executes all commands; true: the thread ends.
    fn obey_all(&mut self) -> io::Result<bool> {
        // Read first: a command that arrives meanwhile wakes the thread again.
        let _ = rustix::io::read(&*self.event_loop().wake, &mut [0; 8]);
        loop {
            match self.event_loop().commands.try_recv() {
                Ok(Command::Do(order)) => self.obey(order)?,
                Ok(Command::Drain) => {
                    self.event_loop().is_draining = true;
                    self.drain()?;
                }
                Ok(Command::Abort) | Err(TryRecvError::Disconnected) => return Ok(true),
                Err(TryRecvError::Empty) => return Ok(false),
            }
        }
    }
}

/// The event that a task waits for after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has more work, after the turns of the others.
    Again,
    /// An event, or a time if it has one.
    Wait(Option<Time>),
}

/// Readiness of a socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    pub(crate) has_failed: bool,
}

/// Commands for a thread.
#[derive(Debug)]
pub(crate) enum Command<O> {
    /// Executes an order.
    Do(O),
    /// Ends after the last task.
    Drain,
    /// Ends all tasks, and then itself.
    Abort,
}

/// Gives commands to a thread from any other.
#[derive(Debug)]
pub(crate) struct Orders<O> {
    sender: Sender<Command<O>>,
    wake: Arc<OwnedFd>,
}

/// A thread; when this is dropped, it is aborted and has ended.
#[derive(Debug)]
pub(crate) struct Thread<O> {
    orders: Arc<Orders<O>>,
    handle: Option<JoinHandle<io::Result<()>>>,
}

/// A task in its event loop.
#[derive(Debug)]
struct Scheduled<T> {
    task: T,
    /// When it is due without an event.
    timer: Option<Time>,
    /// Whether it waits for its next turn, so that it has not two.
    is_queued: bool,
}

impl<T: Task, O> EventLoop<T, O> {
    /// A loop without tasks, and the means to give it orders.
    pub(crate) fn new() -> io::Result<(Self, Orders<O>)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let (sender, commands) = channel();
        let event_loop = Self {
            epoll,
            wake: wake.clone(),
            commands,
            tasks: Slab::default(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            is_draining: false,
            now: monotonic(),
        };
        Ok((event_loop, Orders { sender, wake }))
    }

    /// The time of this round.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Whether the thread ends after its last task.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Adds a task, which [`Handler::begin`] starts.
    pub(crate) fn insert(&mut self, task: T) -> Key {
        self.tasks.insert(Scheduled { task, timer: None, is_queued: false })
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.tasks.get_mut(key).map(|scheduled| &mut scheduled.task)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let Scheduled { task, timer, .. } = self.tasks.remove(key)?;
        timer.map(|at| self.timers.remove(&(at, key)));
        Some(task)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.tasks.keys()
    }

    /// Gives a task its turn in the next round.
    pub(crate) fn queue(&mut self, key: Key) {
        if let Some(scheduled) = self.tasks.get_mut(key)
            && !std::mem::replace(&mut scheduled.is_queued, true)
        {
            self.ready.push_back(key);
        }
    }

    /// Watches a socket of the thread itself.
    pub(crate) fn watch(&self, socket: impl AsFd, number: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(SOURCE | number), flags)?)
    }

    /// Stops watching a socket, which may have been closed.
    pub(crate) fn unwatch(&self, socket: impl AsFd) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    fn watch_task(&mut self, key: Key) -> io::Result<()> {
        let Some(scheduled) = self.tasks.get_mut(key) else { return Ok(()) };
        for (at, socket) in scheduled.task.sockets().iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, socket, EventData::new_u64(key.with_bit(at == 1)), flags)?;
        }
        Ok(())
    }

    fn set_timer(&mut self, key: Key, timer: Option<Time>) {
        let Some(scheduled) = self.tasks.get_mut(key) else { return };
        let before = std::mem::replace(&mut scheduled.timer, timer);
        if before != timer {
            before.map(|at| self.timers.remove(&(at, key)));
            timer.map(|at| self.timers.insert((at, key)));
        }
    }

    /// Takes the next task of this round, unless that has ended.
    fn pop_ready(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.tasks.get_mut(key)?.is_queued = false;
        Some(key)
    }

    /// Takes the first task whose timer is due.
    fn pop_due(&mut self) -> Option<Key> {
        let (at, key) = *self.timers.first().filter(|(at, _)| *at <= self.now)?;
        self.timers.remove(&(at, key));
        self.tasks.get_mut(key)?.timer = None;
        Some(key)
    }

    /// Waits for events, until the first timer, or until `next`.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, next: Option<Time>) -> io::Result<()> {
        let first = self.timers.first().map(|(at, _)| *at);
        let due = || first.into_iter().chain(next).min();
        // The call rounds up to milliseconds, so that the timer is due after the wait.
        let timeout = if self.ready.is_empty() { due().map(|at| at - monotonic()) } else { Some(Time::ZERO) };
        let timeout = timeout
            .map(|time| Timespec { tv_sec: (time.as_nanos() / NANOS) as i64, tv_nsec: (time.as_nanos() % NANOS) as _ });
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.now = monotonic();
        Ok(())
    }
}

impl<O> Orders<O> {
    /// Gives a command, which is dropped if the thread has ended.
    pub(crate) fn give(&self, command: Command<O>) {
        let _ = self.sender.send(command);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl<O: Send + 'static> Thread<O> {
    /// Starts a handler in the network namespace of the calling thread.
    pub(crate) fn start<H>(name: &str, make: impl FnOnce(EventLoop<H::Task, O>) -> io::Result<H>) -> io::Result<Self>
    where
        H: Handler<Order = O> + Send + 'static,
    {
        let (event_loop, orders) = EventLoop::new()?;
        let handler = make(event_loop)?;
        let handle = start_thread(name, move || handler.run())?;
        Ok(Self { orders: Arc::new(orders), handle: Some(handle) })
    }

    /// The means to give it commands.
    pub(crate) fn orders(&self) -> &Arc<Orders<O>> {
        &self.orders
    }

    /// The result of the thread, once it has ended.
    pub(crate) fn result(&mut self) -> Option<io::Result<()>> {
        let handle = self.handle.take_if(|handle| handle.is_finished())?;
        Some(handle.join().unwrap_or_else(|panicked| resume_unwind(panicked)))
    }

    /// Whether the thread's result was not taken yet.
    pub(crate) fn is_running(&self) -> bool {
        self.handle.is_some()
    }
}

impl<O> Drop for Thread<O> {
    fn drop(&mut self) {
        self.orders.give(Command::Abort);
        // A panic has ended the program, or was printed where it happened.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

impl Readiness {
    fn of(flags: EventFlags) -> Self {
        let has_failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Self {
            is_readable: has_failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
            is_writable: has_failed || flags.contains(EventFlags::OUT),
            has_failed,
        }
    }
}

/// Event data of the wake descriptor, and the bit of sockets of the thread itself, which no [`Key`] has.
const WAKE: u64 = u64::MAX;
const SOURCE: u64 = 1 << 63;
/// Events that are fetched at a time.
const EVENTS: usize = 256;
const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests;
