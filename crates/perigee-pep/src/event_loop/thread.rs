//! A thread with an event loop, and its commands.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::{EventLoop, Handler};

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
    pub(super) sender: Sender<Command<O>>,
    pub(super) wake: Arc<OwnedFd>,
}

/// A thread; when this is dropped, it is aborted and has ended.
#[derive(Debug)]
pub(crate) struct Thread<O> {
    orders: Arc<Orders<O>>,
    handle: Option<JoinHandle<io::Result<()>>>,
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
        let handle = Builder::new().name(name.to_owned()).spawn(move || handler.run())?;
        Ok(Self { orders: Arc::new(orders), handle: Some(handle) })
    }

    /// The means to give it commands.
    pub(crate) fn orders(&self) -> &Arc<Orders<O>> {
        &self.orders
    }

    /// The result of the thread, once it has ended.
    pub(crate) fn result(&mut self) -> Option<io::Result<()>> {
        let handle = self.handle.take_if(|handle| handle.is_finished())?;
        Some(handle.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked"))))
    }

    /// Whether the thread's result was not taken yet.
    pub(crate) fn is_running(&self) -> bool {
        self.handle.is_some()
    }
}

impl<O> Drop for Thread<O> {
    fn drop(&mut self) {
        self.orders.give(Command::Abort);
        // A panic was printed where it happened.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}
