//! The links and receivers that can be reached ahead of time, because nothing else can arrive between the packets of their only feeder.

use crate::routes::Routes;

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

#[cfg(test)]
mod tests {
    use super::*;

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
