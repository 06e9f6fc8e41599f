//! Shortest paths of packets: the next link for each node and destination.

/// One direction of a link: the nodes it leaves and enters.
pub(crate) type Edge = (u32, u32);

/// Next hops by `node * nodes + destination`: fewest links, and the first edge among equals.
pub(crate) fn shortest_paths(nodes: usize, edges: &[Edge]) -> Vec<Option<u32>> {
    let mut next_hop = vec![None; nodes * nodes];
    for destination in 0..nodes {
        let distance = distances(nodes, edges, destination);
        for (number, (from, to)) in edges.iter().enumerate() {
            let cell = &mut next_hop[*from as usize * nodes + destination];
            let ends = (distance[*from as usize], distance[*to as usize]);
            if cell.is_none() && matches!(ends, (Some(here), Some(there)) if there < here) {
                *cell = Some(number as u32);
            }
        }
    }
    next_hop
}

/// Why a path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPath {
    /// This node has no link towards the destination.
    Unreachable(u32),
    /// Routes lead back to this node.
    Loop(u32),
}

/// The links from one node to another.
pub(crate) fn path(
    nodes: usize,
    edges: &[Edge],
    next_hop: &[Option<u32>],
    (from, to): (u32, u32),
) -> Result<Vec<u32>, NoPath> {
    let (mut at, mut path) = (from, Vec::new());
    while at != to {
        let link = next_hop[at as usize * nodes + to as usize].ok_or(NoPath::Unreachable(at))?;
        if path.len() == nodes {
            return Err(NoPath::Loop(at));
        }
        path.push(link);
        at = edges[link as usize].1;
    }
    Ok(path)
}

/// Number of links from each node to `destination`.
fn distances(nodes: usize, edges: &[Edge], destination: usize) -> Vec<Option<usize>> {
    let mut distance = vec![None; nodes];
    distance[destination] = Some(0);
    let mut grew = true;
    for hops in 1..=nodes {
        if !std::mem::take(&mut grew) {
            break;
        }
        for (from, to) in edges {
            if distance[*to as usize] == Some(hops - 1) && distance[*from as usize].is_none() {
                distance[*from as usize] = Some(hops);
                grew = true;
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_wins_and_of_equals_the_first_written() {
        // 0 - 1 - 3 and 0 - 2 - 3, and 0 - 4 alone.
        let links = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 4)];
        let edges: Vec<Edge> = links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let next_hop = shortest_paths(5, &edges);
        assert_eq!(path(5, &edges, &next_hop, (0, 3)), Ok(vec![0, 4]));
        assert_eq!(path(5, &edges, &next_hop, (4, 3)), Ok(vec![9, 0, 4]));
        assert_eq!(path(5, &edges, &next_hop, (3, 3)), Ok(vec![]));
    }

    #[test]
    fn islands_and_loops_are_found() {
        let edges = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let mut next_hop = shortest_paths(4, &edges);
        assert_eq!(path(4, &edges, &next_hop, (0, 3)), Err(NoPath::Unreachable(0)));
        next_hop[4 + 2] = Some(1);
        assert_eq!(path(4, &edges, &next_hop, (0, 2)), Err(NoPath::Loop(0)));
    }
}
