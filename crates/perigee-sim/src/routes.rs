//! The next link of each packet: fixed by its way, or by routes that change during the run. Links and receivers can be reached ahead of
//! time if nothing else arrives between the packets of their only feeder.

use perigee_study::{RouteChange, RunLink, Scenario};
use perigee_units::Time;

/// Next link: none, the packet has arrived.
pub(crate) const ARRIVED: u32 = u32::MAX >> 1;
/// Flag on a next link: offer the packet only when it gets there. Without the flag, offer it ahead of time.
pub(crate) const LATER: u32 = 1 << 31;
/// Next link: depends on the way or the time.
pub(crate) const BY_WAY: u32 = u32::MAX;
/// Node: none.
const NOBODY: u32 = u32::MAX;

/// The first link of each way, and the link after each. A way is twice the connection's number, plus one in reverse.
pub(crate) struct Routes {
    first: Vec<u32>,
    /// Start of each way's row in `next`.
    row: Vec<u32>,
    /// The next link, by row and link, with [`LATER`] if packets must not be offered ahead of time, or [`ARRIVED`].
    /// Ways over the same links share a row.
    next: Vec<u32>,
    changing: Option<Box<Changing>>,
}

struct Changing {
    /// The node at the end of each link.
    enters: Vec<u32>,
    /// The node whose routes determine each way's first link, and the way's destination. A host with processing time
    /// always has its own first link: [`NOBODY`].
    ways: Vec<(u32, u32)>,
    /// Each row's start, its destination, and the node where its packets arrive: a proxy on the path, or the destination.
    rows: Vec<(usize, u32, u32)>,
    /// Coming changes, the next one last.
    changes: Vec<RouteChange>,
}

impl Routes {
    /// Routes of these ways over the links of the study and, numbered after them, those inside hosts.
    pub(crate) fn new(scenario: &Scenario, hosts: &[RunLink], paths: &[Vec<u32>], seed: u64) -> Self {
        let links: Vec<&RunLink> = scenario.links.iter().chain(hosts).collect();
        let first = paths.iter().map(|path| path.first().copied().unwrap_or(ARRIVED)).collect();
        let mut changes = scenario.route_changes(seed);
        if changes.is_empty() {
            let (row, next) = rows_of_paths(links.len(), paths.iter());
            return Self { first, row, next, changing: None };
        }
        changes.reverse();
        let ways = paths.iter().zip(scenario.destinations().flatten()).map(|(path, to)| {
            let (first, last) = (path.first().copied().unwrap_or(0), path.last().copied().unwrap_or(0));
            let of_study = scenario.links.get(first as usize);
            (of_study.map_or(NOBODY, |link| link.from), to, links[last as usize].to)
        });
        let (mut row, mut rows, mut next, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (from, to, stop) in ways {
            ends.push((from, to));
            let known = rows.iter().find(|(_, of, at)| (*of, *at) == (to, stop)).map(|(begin, ..)| *begin);
            let begin = known.unwrap_or_else(|| {
                rows.push((next.len(), to, stop));
                let after = |node| if node == stop { None } else { scenario.next_hop(node, to) };
                next.extend(links.iter().map(|link| after(link.to).map_or(ARRIVED, |next| next | LATER)));
                next.len() - links.len()
            });
            row.push(begin as u32);
        }
        let enters = links.iter().map(|link| link.to).collect();
        let mut routes =
            Self { first, row, next, changing: Some(Box::new(Changing { enters, ways: ends, rows, changes })) };
        routes.change(Time::ZERO);
        routes
    }

    /// Allows cut-through to the next links that satisfy `allows`; none with route changes.
    pub(crate) fn allow_cut_through(&mut self, allows: impl Fn(u32) -> bool) {
        if self.changing.is_none() {
            for link in self.next.iter_mut().filter(|link| **link != ARRIVED && allows(**link & !LATER)) {
                *link &= !LATER;
            }
        }
    }

    /// Adds the two ways of a connection, like those of another one; returns the first.
    pub(crate) fn add_connection(&mut self, like: u32) -> u32 {
        let way = self.first.len() as u32;
        for like in [2 * like as usize, 2 * like as usize + 1] {
            self.first.push(self.first[like]);
            self.row.push(self.row[like]);
            if let Some(changing) = &mut self.changing {
                changing.ways.push(changing.ways[like]);
            }
        }
        way
    }

    #[inline]
    pub(crate) fn first(&self, way: u32) -> u32 {
        self.first[way as usize]
    }

    /// The link that follows `link`, or [`ARRIVED`].
    #[inline]
    pub(crate) fn after(&self, way: u32, link: u32) -> u32 {
        self.next[self.row[way as usize] as usize + link as usize]
    }

    /// Each link's [`Routes::after`] common to all packets of these paths; [`BY_WAY`] if they differ or routes change.
    pub(crate) fn after_each<'a>(&self, paths: impl Iterator<Item = &'a Vec<u32>>, links: usize) -> Vec<u32> {
        let mut all = vec![None; links];
        for (way, path) in (0..).zip(paths) {
            for link in path {
                let (after, seen) = (self.after(way, *link), &mut all[*link as usize]);
                *seen = Some(if seen.is_none_or(|before| before == after) { after } else { BY_WAY });
            }
        }
        all.into_iter().map(|after| after.filter(|_| self.changing.is_none()).unwrap_or(BY_WAY)).collect()
    }

    pub(crate) fn next_change(&self) -> Option<Time> {
        self.changing.as_ref()?.changes.last().map(|change| change.at)
    }

    /// The destination of the packets of a way; `None` if routes do not change.
    pub(crate) fn destination(&self, way: u32) -> Option<u32> {
        self.changing.as_ref().map(|changing| changing.ways[way as usize].1)
    }

    /// Carries out the changes due by `now`, and returns them.
    pub(crate) fn change(&mut self, now: Time) -> Vec<RouteChange> {
        let mut done = Vec::new();
        let Some(Changing { enters, ways, rows, changes }) = self.changing.as_deref_mut() else { return done };
        while let Some(change) = changes.last().filter(|change| change.at <= now).copied() {
            let RouteChange { node, to, link, .. } = change;
            changes.pop();
            done.push(change);
            for (first, _) in self.first.iter_mut().zip(ways.iter()).filter(|(_, way)| **way == (node, to)) {
                *first = link;
            }
            for (begin, ..) in rows.iter().filter(|(_, of, stop)| *of == to && *stop != node) {
                let next = &mut self.next[*begin..][..enters.len()];
                for (next, _) in next.iter_mut().zip(enters.iter()).filter(|(_, enters)| **enters == node) {
                    *next = link | LATER;
                }
            }
        }
        done
    }
}

/// For each link, its only feeder; `None` if several links feed it or packets start there.
pub(crate) fn single_feeders<'a>(links: usize, paths: impl Iterator<Item = &'a Vec<u32>>) -> Vec<Option<u32>> {
    let mut feeders = vec![Feeder::Nobody; links];
    for path in paths {
        let mut from = Feeder::Several;
        for link in path {
            let feeder = &mut feeders[*link as usize];
            *feeder = if *feeder == Feeder::Nobody || *feeder == from { from } else { Feeder::Several };
            from = Feeder::Link(*link);
        }
    }
    feeders.into_iter().map(|feeder| if let Feeder::Link(link) = feeder { Some(link) } else { None }).collect()
}

/// The last link of each way, if it decides on arrival and the receiver's packets have their first link to themselves.
pub(crate) fn lookahead_links(
    ways: &[&Vec<u32>],
    links: usize,
    routes: &Routes,
    is_feed_forward: impl Fn(u32) -> bool,
) -> Vec<Option<u32>> {
    let mut users = vec![0u32; links];
    ways.iter().copied().flatten().for_each(|link| users[*link as usize] += 1);
    let lone = |(way, path): (usize, &&Vec<u32>)| {
        let (first_back, last) = (*ways[way ^ 1].first()?, *path.last()?);
        let is_cut_through = path.windows(2).all(|pair| routes.after(way as u32, pair[0]) == pair[1]);
        let is_lone = users[first_back as usize] == 1 && is_feed_forward(first_back);
        (is_cut_through && is_lone && is_feed_forward(last)).then_some(last)
    };
    ways.iter().enumerate().map(lone).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Nobody,
    Link(u32),
    /// Several links, or a node where flows start.
    Several,
}

/// The start of each path's row, and the rows: the link after each link.
fn rows_of_paths<'a>(links: usize, paths: impl Iterator<Item = &'a Vec<u32>>) -> (Vec<u32>, Vec<u32>) {
    let mut known = std::collections::BTreeMap::new();
    let mut next = Vec::new();
    let row = paths.map(|path| {
        *known.entry(path).or_insert_with(|| {
            let begin = next.len();
            next.resize(begin + links, ARRIVED);
            for pair in path.windows(2) {
                next[begin + pair[0] as usize] = pair[1] | LATER;
            }
            begin as u32
        })
    });
    (row.collect(), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_share_a_row() {
        let paths = [vec![0, 1], vec![2], vec![0, 1]];
        let (row, next) = rows_of_paths(3, paths.iter());
        assert_eq!(row, [0, 3, 0]);
        assert_eq!(next, [1 | LATER, ARRIVED, ARRIVED, ARRIVED, ARRIVED, ARRIVED]);
    }

    #[test]
    fn a_link_has_a_single_feeder_when_all_its_packets_come_over_one_link() {
        let chain = [vec![0, 1, 2], vec![3, 4, 5]];
        assert_eq!(single_feeders(6, chain.iter()), [None, Some(0), Some(1), None, Some(3), Some(4)]);
        let joined = [vec![0, 2], vec![1, 2]];
        assert_eq!(single_feeders(3, joined.iter()), [None; 3], "two links feed link 2");
        let begun_between = [vec![0, 1], vec![1]];
        assert_eq!(single_feeders(2, begun_between.iter()), [None; 2], "a flow starts at link 1");
        let left_between = [vec![0, 1], vec![0]];
        assert_eq!(single_feeders(2, left_between.iter()), [None, Some(0)], "packets that end before it do not matter");
    }
}
