//! Spans of bytes.

/// Spans in order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    spans: Vec<(u64, u64)>,
    bytes: u64,
}

impl Spans {
    /// Adds the bytes from `start` up to `end`; calls `fresh` with each part of them that was not there, in order.
    pub fn add(&mut self, start: u64, end: u64, mut fresh: impl FnMut(u64, u64)) {
        let first = self.spans.partition_point(|span| span.1 < start);
        let last = first + self.spans[first..].partition_point(|span| span.0 <= end);
        let overlapped = &self.spans[first..last];
        if overlapped.first().is_some_and(|span| span.0 <= start && end <= span.1) || end <= start {
            return;
        }
        let mut at = start;
        for (known, after) in overlapped {
            if at < *known {
                fresh(at, *known);
                self.bytes += known - at;
            }
            at = at.max(*after);
        }
        if at < end {
            fresh(at, end);
            self.bytes += end - at;
        }
        let joined = overlapped.iter().fold((start, end), |all, span| (all.0.min(span.0), all.1.max(span.1)));
        match overlapped {
            [_] => self.spans[first] = joined,
            _ => drop(self.spans.splice(first..last, [joined])),
        }
    }

    /// Removes the bytes before `end`.
    pub fn remove_before(&mut self, end: u64) {
        if self.spans.first().is_none_or(|span| span.0 >= end) {
            return;
        }
        let gone = self.spans.partition_point(|span| span.1 <= end);
        self.bytes -= self.spans[..gone].iter().map(|span| span.1 - span.0).sum::<u64>();
        self.spans.drain(..gone);
        if let Some(first) = self.spans.first_mut().filter(|span| span.0 < end) {
            self.bytes -= end - first.0;
            first.0 = end;
        }
    }

    /// The first of them.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.spans.first().copied()
    }

    /// The last of them.
    pub fn last(&self) -> Option<(u64, u64)> {
        self.spans.last().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes in all of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn spans_are_as_a_set_of_bytes(steps in proptest::collection::vec((0u64..200, 0u64..40, proptest::bool::ANY), 1..60)) {
            let (mut spans, mut bytes) = (Spans::default(), BTreeSet::new());
            for (start, length, is_removal) in steps {
                if is_removal {
                    spans.remove_before(start);
                    bytes = bytes.split_off(&start);
                } else {
                    let mut fresh = Vec::new();
                    spans.add(start, start + length, |start, end| fresh.extend(start..end));
                    let expected: Vec<u64> = (start..start + length).filter(|byte| !bytes.contains(byte)).collect();
                    proptest::prop_assert_eq!(fresh, expected);
                    bytes.extend(start..start + length);
                }
                let held: Vec<u64> = spans.spans.iter().flat_map(|span| span.0..span.1).collect();
                proptest::prop_assert_eq!(spans.bytes(), bytes.len() as u64);
                proptest::prop_assert!(spans.spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
                proptest::prop_assert_eq!(held, bytes.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
