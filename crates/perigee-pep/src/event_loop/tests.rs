//! A handler that writes down what happens to its tasks.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use super::*;

/// Events, in order.
type Diary = Arc<Mutex<Vec<String>>>;

struct Recorder {
    event_loop: EventLoop<Noted, io::Result<Noted>>,
    diary: Diary,
    /// When work of its own is due.
    own: Option<Time>,
}

#[derive(Debug)]
struct Noted {
    name: &'static str,
    sockets: Vec<OwnedFd>,
    /// The results of its turns; the next one ends it.
    turns: VecDeque<Turn>,
}

#[derive(Debug)]
struct Reason(String);

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl Task for Noted {
    fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }
}

impl Recorder {
    fn new(event_loop: EventLoop<Noted, io::Result<Noted>>, diary: Diary) -> Self {
        Self { event_loop, diary, own: None }
    }

    fn note(&mut self, key: Key, what: &str) {
        if let Some(noted) = self.event_loop.get_mut(key) {
            self.diary.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{} {what}", noted.name));
        }
    }
}

impl Handler for Recorder {
    type Task = Noted;
    type Order = io::Result<Noted>;
    type Outcome = Reason;

    fn event_loop(&mut self) -> &mut EventLoop<Noted, io::Result<Noted>> {
        &mut self.event_loop
    }

    fn on_source(&mut self, number: u64) {
        self.diary.lock().unwrap().push(format!("source {number}"));
    }

    fn on_event(&mut self, key: Key, socket: usize, event: Readiness) -> Result<(), Reason> {
        let Readiness { is_readable, is_writable, has_failed } = event;
        if has_failed {
            return Err(Reason(format!("failed at {socket}")));
        }
        self.note(key, &format!("at {socket}: readable {is_readable}, writable {is_writable}"));
        Ok(())
    }

    fn advance(&mut self, key: Key) -> Result<Turn, Reason> {
        self.note(key, "turn");
        let next = self.event_loop.get_mut(key).and_then(|noted| noted.turns.pop_front());
        next.ok_or_else(|| Reason("done".to_owned()))
    }

    fn end(&mut self, key: Key, outcome: &Reason) {
        self.note(key, &outcome.0);
        self.event_loop.remove(key);
    }

    fn obey(&mut self, order: io::Result<Noted>) -> io::Result<()> {
        let key = self.event_loop.insert(order?);
        self.begin(key);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.own.is_none()
    }

    fn next(&mut self) -> Option<Time> {
        self.own
    }

    fn after_turns(&mut self) -> io::Result<()> {
        if self.own.take_if(|at| *at <= self.event_loop.now()).is_some() {
            self.diary.lock().unwrap().push("own work".to_owned());
        }
        Ok(())
    }

    fn close(&mut self, done: &io::Result<()>) {
        let reason = done.as_ref().map_or_else(ToString::to_string, |()| "closed".to_owned());
        for key in self.event_loop.keys() {
            self.end(key, &Reason(reason.clone()));
        }
    }
}

fn task(name: &'static str, sockets: Vec<OwnedFd>, turns: impl Into<VecDeque<Turn>>) -> Noted {
    Noted { name, sockets, turns: turns.into() }
}

/// Runs a loop in this thread with these commands, and returns its events.
fn happening(commands: impl IntoIterator<Item = Command<io::Result<Noted>>>, own: Option<Time>) -> Vec<String> {
    let (event_loop, orders) = EventLoop::new().unwrap();
    let recorder = Recorder { own, ..Recorder::new(event_loop, Diary::default()) };
    let diary = recorder.diary.clone();
    commands.into_iter().for_each(|command| orders.give(command));
    // The error is in the diary of each task.
    let _ = recorder.run();
    let happened = diary.lock().unwrap();
    happened.clone()
}

#[test]
fn tasks_take_turns_and_a_drained_thread_ends_after_the_last() {
    let soon = Turn::Wait(Some(Time::ZERO));
    let a = Command::Do(Ok(task("a", vec![], [Turn::Again, Turn::Again, soon])));
    let b = Command::Do(Ok(task("b", vec![], [Turn::Again])));
    let happened = happening([a, b, Command::Drain], None);
    assert_eq!(happened[..2], ["a turn", "b turn"]);
    assert_eq!(happened[2..], ["a turn", "b turn", "b done", "a turn", "a turn", "a done"]);
}

#[test]
fn the_events_of_a_round_give_their_task_one_turn() {
    let ((one, _silent), (other, mut far)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    far.write_all(b"x").unwrap();
    let a = Command::Do(Ok(task("a", vec![one.into(), other.into()], [Turn::Wait(None)])));
    let [first, second] = ["a at 0: readable false, writable true", "a at 1: readable true, writable true"];
    assert_eq!(happening([a, Command::Drain], None), ["a turn", first, second, "a turn", "a done"]);
}

#[test]
fn an_event_after_the_end_of_its_task_is_lost() {
    let ((one, gone), (other, _silent)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    drop(gone);
    let a = Command::Do(Ok(task("a", vec![one.into(), other.into()], [Turn::Wait(None)])));
    assert_eq!(happening([a, Command::Drain], None), ["a turn", "a failed at 0"]);
}

#[test]
fn an_abort_or_an_error_ends_the_tasks_that_are_left() {
    let waiting = || Command::Do(Ok(task("a", vec![], [Turn::Wait(None)])));
    assert_eq!(happening([waiting(), Command::Abort], None), ["a turn", "a closed"]);
    let refused = Command::Do(Err(io::Error::other("refused")));
    assert_eq!(happening([waiting(), refused], None), ["a turn", "a refused"]);
}

#[test]
fn a_drained_thread_does_its_own_work_when_it_is_due() {
    let due = monotonic() + Time::from_millis(20);
    assert_eq!(happening([Command::Drain], Some(due)), ["own work"]);
    assert!(monotonic() >= due);
}

#[test]
fn a_thread_has_a_result_once_and_one_that_is_dropped_has_ended() {
    let diary = Diary::default();
    let start = || Thread::start("test-loop", |event_loop| Ok(Recorder::new(event_loop, diary.clone()))).unwrap();
    let mut thread = start();
    assert!(thread.result().is_none() && thread.is_running());
    thread.orders().give(Command::Do(Err(io::Error::other("refused"))));
    let done = loop {
        match thread.result() {
            Some(done) => break done,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(done.unwrap_err().to_string(), "refused");
    assert!(thread.result().is_none() && !thread.is_running());
    let thread = start();
    thread.orders().give(Command::Do(Ok(task("a", vec![], [Turn::Wait(None)]))));
    drop(thread);
    assert_eq!(*diary.lock().unwrap(), ["a turn", "a closed"]);
}

#[test]
fn a_socket_of_the_thread_itself_has_its_number() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let (event_loop, orders) = EventLoop::new().unwrap();
    event_loop.watch(&near, 7, EventFlags::IN).unwrap();
    far.write_all(b"x").unwrap();
    let recorder = Recorder::new(event_loop, Diary::default());
    let diary = recorder.diary.clone();
    orders.give(Command::Drain);
    recorder.run().unwrap();
    assert_eq!(*diary.lock().unwrap(), ["source 7"]);
}

#[test]
fn turns_come_once_a_round_and_timers_in_order() {
    let (mut event_loop, _orders) = EventLoop::<Noted, ()>::new().unwrap();
    let keys = ["a", "b"].map(|name| event_loop.insert(task(name, vec![], [])));
    event_loop.queue(keys[0]);
    event_loop.queue(keys[0]);
    assert_eq!((event_loop.ready.len(), event_loop.pop_ready(), event_loop.pop_ready()), (1, Some(keys[0]), None));
    event_loop.now = Time::from_millis(1);
    event_loop.set_timer(keys[0], Some(Time::from_millis(5)));
    event_loop.set_timer(keys[1], Some(Time::from_millis(3)));
    event_loop.set_timer(keys[0], Some(Time::from_millis(2)));
    assert_eq!((event_loop.timers.len(), event_loop.pop_due()), (2, None));
    event_loop.now = Time::from_millis(4);
    let due: Vec<_> = std::iter::from_fn(|| event_loop.pop_due()).collect();
    assert_eq!((due, event_loop.timers.len()), (vec![keys[0], keys[1]], 0));
}

#[test]
fn a_removed_task_has_neither_timer_nor_turn() {
    let (mut event_loop, _orders) = EventLoop::<Noted, ()>::new().unwrap();
    let key = event_loop.insert(task("a", vec![], []));
    event_loop.queue(key);
    event_loop.set_timer(key, Some(Time::ZERO));
    assert_eq!(event_loop.remove(key).unwrap().name, "a");
    event_loop.queue(key);
    assert_eq!((event_loop.pop_ready(), event_loop.pop_due(), event_loop.tasks.len()), (None, None, 0));
}
