//! A handler whose tasks write down what happens to them.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use super::*;

/// What happened, in order, shared with the test.
type Diary = Arc<Mutex<Vec<String>>>;

struct Recorder {
    event_loop: EventLoop<Noted, Noted>,
    diary: Diary,
}

#[derive(Debug)]
struct Noted {
    name: &'static str,
    sockets: Vec<OwnedFd>,
    /// What its turns answer; it ends after them.
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
    fn note(&mut self, key: Key, what: &str) {
        let name = self.event_loop.get_mut(key).map_or("?", |noted| noted.name);
        self.diary.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name} {what}"));
    }
}

impl Handler for Recorder {
    type Task = Noted;
    type Order = Noted;
    type Outcome = Reason;

    fn event_loop(&mut self) -> &mut EventLoop<Noted, Noted> {
        &mut self.event_loop
    }

    fn on_source(&mut self, _number: u64) {}

    fn on_event(&mut self, key: Key, socket: usize, event: Readiness) -> Result<(), Reason> {
        if event.is_readable {
            self.note(key, &format!("readable at {socket}"));
        }
        Ok(())
    }

    fn advance(&mut self, key: Key) -> Result<Turn, Reason> {
        self.note(key, "turn");
        let next = self.event_loop.get_mut(key).and_then(|noted| noted.turns.pop_front());
        next.ok_or_else(|| Reason("done".to_owned()))
    }

    fn end(&mut self, key: Key, outcome: &Reason) {
        self.note(key, &outcome.0);
        assert!(self.event_loop.remove(key).is_some());
    }

    fn obey(&mut self, order: Noted) -> io::Result<()> {
        let key = self.event_loop.insert(order);
        self.begin(key);
        Ok(())
    }

    fn close(&mut self, done: &io::Result<()>) {
        assert!(done.is_ok());
        for key in self.event_loop.keys() {
            self.end(key, &Reason("closed".to_owned()));
        }
    }
}

/// Starts a thread without tasks.
fn start() -> (Thread<Noted>, Diary) {
    let diary = Diary::default();
    let recorder = |event_loop| Ok(Recorder { event_loop, diary: diary.clone() });
    (Thread::start("test-loop", recorder).unwrap(), diary)
}

/// What happened until the thread, which has a command to end, has ended.
fn ended(mut thread: Thread<Noted>, diary: &Diary) -> Vec<String> {
    loop {
        if let Some(done) = thread.result() {
            done.unwrap();
            assert!(!thread.is_running());
            return std::mem::take(&mut *diary.lock().unwrap());
        }
        std::thread::yield_now();
    }
}

fn noted(name: &'static str, sockets: Vec<OwnedFd>, turns: impl Into<VecDeque<Turn>>) -> Command<Noted> {
    Command::Do(Noted { name, sockets, turns: turns.into() })
}

#[test]
fn tasks_take_turns_and_a_drained_thread_ends_after_the_last() {
    let (thread, diary) = start();
    let soon = Turn::Wait(Some(Time::ZERO));
    thread.orders().give(noted("a", vec![], [Turn::Again, Turn::Again, soon]));
    thread.orders().give(noted("b", vec![], [Turn::Again]));
    thread.orders().give(Command::Drain);
    let happened = ended(thread, &diary);
    let of = |name: &str| happened.iter().filter(|line| line.starts_with(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("a"), ["a turn", "a turn", "a turn", "a turn", "a done"]);
    assert_eq!(of("b"), ["b turn", "b turn", "b done"]);
}

#[test]
fn an_event_gives_its_task_a_turn_and_an_abort_ends_it() {
    let (thread, diary) = start();
    let ((near, mut far), (other, _silent)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    thread.orders().give(noted("a", vec![other.into(), near.into()], [Turn::Wait(None); 100]));
    far.write_all(b"x").unwrap();
    while !diary.lock().unwrap().iter().any(|line| line == "a readable at 1") {
        std::thread::yield_now();
    }
    thread.orders().give(Command::Abort);
    let happened = ended(thread, &diary);
    let at = happened.iter().position(|line| line == "a readable at 1").unwrap();
    assert_eq!((&*happened[at + 1], &*happened[happened.len() - 1]), ("a turn", "a closed"));
}

#[test]
fn turns_come_once_a_round_and_timers_in_order() {
    let (mut event_loop, _orders) = EventLoop::<Noted, ()>::new().unwrap();
    let keys = ["a", "b"].map(|name| event_loop.insert(Noted { name, sockets: vec![], turns: VecDeque::new() }));
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
    let key = event_loop.insert(Noted { name: "a", sockets: vec![], turns: VecDeque::new() });
    event_loop.queue(key);
    event_loop.set_timer(key, Some(Time::ZERO));
    assert_eq!(event_loop.remove(key).unwrap().name, "a");
    event_loop.queue(key);
    assert_eq!((event_loop.pop_ready(), event_loop.pop_due(), event_loop.len()), (None, None, 0));
}
