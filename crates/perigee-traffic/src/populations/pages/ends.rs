//! The application of a connection of a browser, at both of its ends: TLS, requests and responses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::browser::Browser;
use super::connection::{BrowserConnection, Item, CLIENT_HANDSHAKE};
use crate::conversation::{Action, Conversation, End, Facts};
use crate::exchanges::Exchanges;

/// The browser, which all of its connections share.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Browser>>);

impl Shared {
    pub(super) fn new(browser: Browser) -> Self {
        Self(Arc::new(Mutex::new(browser)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Browser> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The application of one connection, at both of its ends.
#[derive(Debug)]
pub(super) struct PageConnection {
    browser: Shared,
    number: u32,
}

impl PageConnection {
    pub(super) fn new(browser: Shared, number: u32) -> Self {
        Self { browser, number }
    }

    fn ask(&self, facts: Facts) -> Action {
        let mut browser = self.browser.lock();
        let (http, request) = (browser.pages.http, browser.pages.request.as_u64());
        let Some(connection) = browser.connection(self.number) else { return Action::Done };
        let load = connection.load;
        while let Some(item) = browser.connection(self.number).and_then(|open| open.read(facts.received)) {
            if let (Item::Object(asked), true) = (item, browser.goes_on(load)) {
                browser.arrived(facts.now, asked);
            }
        }
        let goes_on = browser.goes_on(load);
        let Some(connection) = browser.connection(self.number) else { return Action::Done };
        if !goes_on || facts.closed {
            return match std::mem::replace(&mut connection.is_closed, true) {
                false => Action::HalfClose,
                true if facts.closed => Action::Done,
                true => Action::AwaitClose,
            };
        }
        if connection.handshakes > 0 {
            return if std::mem::replace(&mut connection.greets, true) {
                Action::Await(facts.received + 1)
            } else {
                connection.request(CLIENT_HANDSHAKE, Item::Handshake, http)
            };
        }
        connection.is_up = true;
        let (server, takes) = (connection.server, connection.takes(http));
        match takes.then(|| browser.ask(facts.now, server)).flatten() {
            Some(asked) => browser.connection(self.number).map_or(Action::Done, |connection| {
                connection.asked.push(asked);
                connection.request(request, Item::Object(asked), http)
            }),
            None => Action::Await(facts.received + 1),
        }
    }
}

impl Conversation for PageConnection {
    fn next(&mut self, end: End, facts: Facts, _exchanges: &mut Exchanges) -> Action {
        match end {
            End::To => self.ask(facts),
            End::From => {
                let mut browser = self.browser.lock();
                let service = browser.pages.service;
                let http = browser.pages.http;
                let answer = |connection: &mut BrowserConnection| connection.answer(facts, service, http);
                browser.connection(self.number).map_or(Action::Done, answer)
            }
        }
    }

    fn message_arrived(&mut self, end: End, stream: usize) {
        if let Some(connection) = self.browser.lock().connection(self.number) {
            connection.message_arrived(end, stream);
        }
    }
}
