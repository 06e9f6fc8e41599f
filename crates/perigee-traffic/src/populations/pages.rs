//! Page loads: a browser that loads one page after another, each of many objects over several connections.

mod browser;
mod connection;
mod ends;
mod kind;
mod page;

use perigee_results::{Classes, FlowId, Tables};
use perigee_units::{Stream, Time};

use self::browser::Browser;
use self::ends::{PageConnection, Shared};
pub use self::kind::{Http, Page, PageKind, Pages};
use super::source::{Source, Visit, Visitor};
use super::visits::Opens;
use crate::conversation::Conversation;

impl Pages {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "pages";

    /// Connections that a browser opens in the time `span`; loads that begin before `warm` are not written.
    pub(super) fn open(&self, span: [Time; 2], warm: Time, random: Stream) -> Box<dyn Opens> {
        Box::new(PageVisits(Shared::new(Browser::new(self.clone(), span, warm, random))))
    }
}

impl Source for Pages {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn per_second(&self) -> f64 {
        // A load takes some round trips, which are unknown here.
        let objects = f64::from(self.page.most_objects());
        objects / (self.pause.as_secs_f64() + SHORTEST_LOAD_S)
    }

    fn classes(&self) -> Classes {
        Classes::Sizes(Vec::new())
    }

    fn visitors(&self, _random: Stream) -> Box<dyn Iterator<Item = Visitor> + Send> {
        Box::new(std::iter::empty())
    }
}

/// The connections that a browser opens.
#[derive(Debug)]
struct PageVisits(Shared);

impl Opens for PageVisits {
    fn next_at(&self) -> Time {
        self.0.lock().next_at()
    }

    fn open(&mut self, now: Time) -> Option<Visit> {
        self.0.lock().open(now)
    }

    fn conversation(&self, visit: &Visit) -> Box<dyn Conversation> {
        Box::new(PageConnection::new(self.0.clone(), visit.number))
    }

    fn woken(&mut self) -> Option<u32> {
        self.0.lock().woken()
    }

    fn ended(&mut self, now: Time, number: u32) {
        self.0.lock().ended(now, number);
    }

    fn reacts(&self) -> bool {
        true
    }

    fn share(&self) -> Option<Box<dyn Opens>> {
        Some(Box::new(Self(self.0.clone())))
    }

    fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        self.0.lock().write(id, tables);
    }
}

/// Minimum duration of a load, for the limit on connections.
const SHORTEST_LOAD_S: f64 = 0.1;
