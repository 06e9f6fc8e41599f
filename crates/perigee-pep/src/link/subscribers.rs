//! Who shares the link: each client's subscriber, with its part.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use perigee_share::Subscriber;
use perigee_units::{Bytes, Rate, Time};

use crate::config::{Config, Portion, SatelliteLink};

/// A subscriber: clients that a table of the configuration has together, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Class(usize),
    Address(IpAddr),
}

/// All subscribers with connections or with savings to keep.
#[derive(Debug)]
pub(super) struct Subscribers {
    config: Arc<Config>,
    link: Arc<SatelliteLink>,
    places: BTreeMap<Who, u32>,
    pub(super) members: Vec<Member>,
    /// Payload of each table of the configuration, and of all others.
    totals: Vec<[u64; 2]>,
    /// Their parts of what is sent and of what is received.
    pub(super) parts: [Vec<Subscriber>; 2],
}

/// A subscriber as status and metrics have it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    who: Who,
    /// Its table of the configuration; the number of tables if it has none.
    class: usize,
    /// Payload, sent and received, so far and since the last report.
    moved: [u64; 2],
    lately: [u64; 2],
}

/// A subscriber's rates of payload, bit/s, and its bytes so far.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) rates: [u64; 2],
    pub(super) moved: [u64; 2],
}

impl Subscribers {
    pub(super) fn new(config: Arc<Config>, link: Arc<SatelliteLink>) -> Self {
        let totals = vec![[0; 2]; link.subscribers.len() + 1];
        Self { config, link, places: BTreeMap::new(), members: Vec::new(), totals, parts: [Vec::new(), Vec::new()] }
    }

    /// The index of a client's subscriber. One that comes has all its savings.
    pub(super) fn of(&mut self, client: IpAddr) -> u32 {
        let client = self.config.allow.counted_as(client);
        let classes = &self.link.subscribers;
        let class = self.link.table_of(client);
        let who = match class {
            Some(at) if !classes[at].is_each => Who::Class(at),
            _ => Who::Address(client),
        };
        if let Some(place) = self.places.get(&who) {
            return *place;
        }
        let Portion { weight, floor, ceiling } = class.map_or(self.link.other, |at| classes[at].portion);
        let place = self.members.len() as u32;
        self.places.insert(who, place);
        self.members.push(Member { who, class: class.unwrap_or(classes.len()), moved: [0; 2], lately: [0; 2] });
        let part = Subscriber { weight, floor, ceiling, saved: self.link.policy.savings };
        self.parts.iter_mut().for_each(|parts| parts.push(part));
        place
    }

    /// Forgets those for whom `is_used` is false, and who have all their savings: they would come back as they are. Returns the new index
    /// of each that stays.
    pub(super) fn forget(&mut self, is_used: &[bool]) -> Vec<u32> {
        let most = self.link.policy.savings;
        let stays = |at: usize| is_used[at] || self.parts.iter().any(|parts| parts[at].saved < most);
        let stays: Vec<bool> = (0..self.members.len()).map(stays).collect();
        let places = stays.iter().scan(0, |next, stays| {
            let place = *next;
            *next += u32::from(*stays);
            Some(place)
        });
        let places: Vec<u32> = places.collect();
        keep(&mut self.members, &stays);
        self.parts.iter_mut().for_each(|parts| keep(parts, &stays));
        self.places.retain(|_, place| {
            let stays = stays[*place as usize];
            *place = places[*place as usize];
            stays
        });
        places
    }

    /// Counts payload of a subscriber.
    pub(super) fn count(&mut self, place: u32, moved: [u64; 2]) {
        let member = &mut self.members[place as usize];
        for (way, bytes) in moved.into_iter().enumerate() {
            member.moved[way] += bytes;
            member.lately[way] += bytes;
            self.totals[member.class][way] += bytes;
        }
    }

    /// At most `most` of those who have moved bytes since the last time, most of them first.
    pub(super) fn first(&mut self, most: usize, elapsed: Time) -> Vec<Line> {
        let rate = |bytes| Rate::of(Bytes::new(bytes), elapsed).as_bps();
        let mut active: Vec<&Member> = self.members.iter().filter(|member| member.lately != [0; 2]).collect();
        active.sort_by_key(|member| std::cmp::Reverse(member.lately[0] + member.lately[1]));
        let line =
            |member: &&Member| Line { name: self.name(member), rates: member.lately.map(rate), moved: member.moved };
        let first = active.iter().take(most).map(line).collect();
        self.members.iter_mut().for_each(|member| member.lately = [0; 2]);
        first
    }

    /// Name and payload of each table, and of all others.
    pub(super) fn classes(&self) -> Vec<(String, [u64; 2])> {
        let names = self.link.subscribers.iter().map(|class| &*class.name).chain([SatelliteLink::OTHERS]);
        names.map(str::to_owned).zip(self.totals.iter().copied()).collect()
    }

    fn name(&self, member: &Member) -> String {
        match member.who {
            Who::Class(at) => self.link.subscribers[at].name.clone(),
            Who::Address(address) => address.to_string(),
        }
    }
}

fn keep<T>(all: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    all.retain(|_| stays.next() == Some(&true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_their_table_s_part_and_those_with_nothing_to_remember_are_forgotten() {
        let text = "[allow]\nsources = [\"10.0.0.0/8\", \"2001:db8::/32\"]\ndestinations = [\"0.0.0.0/0\"]\n\
                    [[forward]]\nlisten = \"10.0.0.1:80\"\ntarget = \"192.0.2.1:80\"\n\
                    [legs.sky]\n[legs.lan]\n[[rules]]\nname = \"all\"\nclient = \"lan\"\nserver = \"sky\"\n\
                    [link]\nleg = \"sky\"\ninterface = \"sat0\"\nsend = \"2 Mbit/s\"\n\
                    [[link.subscribers]]\nname = \"ship\"\nsources = [\"10.1.0.0/16\"]\nweight = 3\n\
                    [[link.subscribers]]\nname = \"crew\"\nsources = [\"10.2.0.0/16\"]\neach = true\nceiling = \"1 Mbit/s\"\n";
        let config = Arc::new(Config::parse(text, "pep.toml", 1).unwrap());
        let mut all = Subscribers::new(config.clone(), config.link.clone().unwrap());
        let mut of = |text: &str| all.of(text.parse().unwrap());
        assert_eq!([of("10.1.0.1"), of("10.1.9.9"), of("10.2.0.1"), of("10.2.0.2"), of("10.3.0.1")], [0, 0, 1, 2, 3]);
        assert_eq!([of("2001:db8::1"), of("2001:db8::2"), of("2001:db8:0:1::1")], [4, 4, 5]);
        assert_eq!(all.parts[0].iter().map(|part| part.weight).collect::<Vec<_>>(), [3, 1, 1, 1, 1, 1]);
        assert_eq!((all.parts[1][1].ceiling, all.parts[1][3].ceiling), (Rate::from_bps(1_000_000), Rate::UNLIMITED));
        all.count(0, [1, 2]);
        all.count(2, [10, 20]);
        all.count(3, [100, 200]);
        let classes = [("ship", [1, 2]), ("crew", [10, 20]), ("others", [100, 200])]
            .map(|(name, moved)| (name.to_owned(), moved));
        assert_eq!(all.classes(), classes);
        let first = all.first(2, Time::from_secs(8));
        assert_eq!(
            first.iter().map(|line| (&*line.name, line.rates)).collect::<Vec<_>>(),
            [("10.3.0.1", [100, 200]), ("10.2.0.2", [10, 20])]
        );
        assert!(all.first(2, Time::from_secs(8)).is_empty());
        all.parts[1][2].saved = Bytes::ZERO;
        assert_eq!(all.classes(), classes);
        let places = all.forget(&[false, false, false, true, false, false]);
        assert_eq!((places[2], places[3], all.members.len()), (0, 1, 2));
        assert_eq!(["10.2.0.2", "10.3.0.1", "10.1.0.1"].map(|text| all.of(text.parse().unwrap())), [0, 1, 2]);
    }
}
