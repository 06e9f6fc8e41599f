//! One page: its objects, the references between them, and their servers.

use perigee_units::{Bytes, Stream};

use super::kind::{Page, PageKind};

/// An object of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// Payload of the response, with its headers.
    pub(super) bytes: u64,
    /// The server that has it; 0 has the document.
    pub(super) server: u32,
    /// Objects that become known when this one has arrived.
    pub(super) names: Vec<u32>,
}

/// A requested object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) object: u32,
    pub(super) bytes: u64,
    /// Its number among all requests.
    pub(super) request: u32,
}

/// Objects of one type: number and total bytes.
#[derive(Clone, Copy, Debug)]
struct Share {
    count: u32,
    kib: u64,
}

/// Types of objects, in the order of [`Makeup::shares`].
const FRAME: usize = 0;
const STYLE: usize = 1;
const SCRIPT: usize = 2;
const FONT: usize = 3;
const IMAGE: usize = 4;

/// The composition of a page.
#[derive(Clone, Copy, Debug)]
struct Makeup {
    /// Bytes of the document, KiB.
    document_kib: u64,
    /// Documents in frames, style sheets, scripts, fonts, images.
    shares: [Share; 5],
    servers: u32,
}

impl Page {
    /// Its objects, the document first; `rounds` is the number of serial rounds beyond its own.
    pub(super) fn objects(&self, rounds: u32, random: &mut Stream) -> Vec<Object> {
        let mut objects = match self {
            Self::Drawn(kind) => kind.draw(random),
            Self::Listed(sizes) => {
                let object = |size: &Bytes| Object { bytes: size.as_u64(), server: 0, names: Vec::new() };
                let mut objects: Vec<Object> = sizes.iter().map(object).collect();
                let others = 1..objects.len() as u32;
                if let Some(document) = objects.first_mut() {
                    document.names.extend(others);
                }
                objects
            }
        };
        let first = objects.len().saturating_sub(rounds as usize).max(1);
        if rounds > 0 {
            for object in &mut objects {
                object.names.retain(|name| (*name as usize) < first);
            }
            for late in first..objects.len() {
                objects[late - 1].names.push(late as u32);
            }
        }
        objects
    }

    /// Maximum number of serial rounds beyond its own: of the objects after the document, one is left that the document names.
    pub fn most_rounds(&self) -> u32 {
        let objects = match self {
            Self::Drawn(kind) => kind.makeups().iter().map(Makeup::objects).min().unwrap_or(0),
            Self::Listed(sizes) => sizes.len() as u32,
        };
        objects.saturating_sub(2)
    }

    /// Maximum number of objects.
    pub(super) fn most_objects(&self) -> u32 {
        match self {
            Self::Drawn(kind) => kind.most_objects(),
            Self::Listed(sizes) => sizes.len() as u32,
        }
    }
}

impl PageKind {
    /// The objects of a page of this kind, the document first.
    fn draw(self, random: &mut Stream) -> Vec<Object> {
        let makeup = self.makeup(random);
        let mut objects = vec![Object { bytes: makeup.document_kib << 10, server: 0, names: Vec::new() }];
        // The numbers of each type's objects.
        let mut of_type: [Vec<u32>; 5] = Default::default();
        // Styles and scripts come before what they name.
        for kind in [STYLE, SCRIPT, FRAME, FONT, IMAGE] {
            for bytes in makeup.shares[kind].sizes(random) {
                let namers: &[u32] = match kind {
                    FONT => &of_type[STYLE],
                    FRAME => &of_type[SCRIPT],
                    SCRIPT | IMAGE if random.chance(LATE) => &of_type[SCRIPT],
                    _ => &[],
                };
                // The document names all objects that no style sheet or script names.
                let namer = namers.get(random.below(namers.len().max(1) as u64) as usize).copied().unwrap_or(0);
                let server =
                    if random.chance(FIRST_PARTY) { 0 } else { random.below(u64::from(makeup.servers)) as u32 };
                let number = objects.len() as u32;
                objects[namer as usize].names.push(number);
                objects.push(Object { bytes, server, names: Vec::new() });
                of_type[kind].push(number);
            }
        }
        objects
    }

    /// Maximum number of objects of a page.
    fn most_objects(self) -> u32 {
        self.makeups().iter().map(Makeup::objects).max().unwrap_or(1)
    }

    /// Returns the possible compositions of its pages.
    fn makeups(self) -> &'static [Makeup] {
        match self {
            Self::Small => &[SMALL],
            Self::Median => &[MEDIAN],
            Self::Heavy => &[HEAVY],
            Self::Mix => &[SMALL, MEDIAN, HEAVY],
        }
    }

    fn makeup(self, random: &mut Stream) -> Makeup {
        match self.makeups() {
            [lone] => *lone,
            several => several[random.below(several.len() as u64) as usize],
        }
    }
}

impl Makeup {
    /// Number of its objects, with the document.
    fn objects(&self) -> u32 {
        1 + self.shares.iter().map(|share| share.count).sum::<u32>()
    }
}

impl Share {
    /// Sizes of the objects: log-normal weights of their sum.
    fn sizes(self, random: &mut Stream) -> Vec<u64> {
        let weights: Vec<f64> = (0..self.count).map(|_| random.log_normal(1.0, SPREAD)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| ((weight / sum * (self.kib << 10) as f64) as u64).max(LEAST_BYTES)).collect()
    }
}

const fn share(count: u32, kib: u64) -> Share {
    Share { count, kib }
}

/// Counts and bytes by type at the 10th, 50th and 90th percentile of desktop pages (HTTP Archive, Web Almanac 2024,
/// chapter Page Weight, October 2024). That source has bytes of documents and fonts for the median only: a document has
/// the same at each percentile, a font the same as one of the median page. For scripts of heavy pages the count is that
/// of mobile pages. Counts of servers are assumed.
const SMALL: Makeup = Makeup {
    document_kib: 18,
    shares: [share(0, 0), share(2, 10), share(5, 101), share(0, 0), share(5, 84)],
    servers: 4,
};
const MEDIAN: Makeup = Makeup {
    document_kib: 18,
    shares: [share(1, 18), share(8, 80), share(24, 620), share(4, 131), share(18, 1054)],
    servers: 12,
};
const HEAVY: Makeup = Makeup {
    document_kib: 18,
    shares: [share(11, 198), share(26, 269), share(69, 1834), share(11, 360), share(60, 6526)],
    servers: 30,
};
/// Standard deviation of the logarithm of a size within its type, assumed.
const SPREAD: f64 = 1.0;
/// Share of scripts and images that are named by a script instead of the document, assumed.
const LATE: f64 = 1.0 / 3.0;
/// Share of objects at the document's server, assumed; the others are at any server.
const FIRST_PARTY: f64 = 0.5;
/// Minimum size of a response: its headers and a few bytes.
const LEAST_BYTES: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest way from the document to an object.
    fn depth(page: &[Object], object: usize) -> u32 {
        page[object].names.iter().map(|name| 1 + depth(page, *name as usize)).max().unwrap_or(0)
    }

    #[test]
    fn each_serial_round_lets_the_load_wait_for_one_more_object_and_changes_no_size() {
        let listed = Page::Listed([18, 10, 20, 30, 40].map(|kb| Bytes::new(kb * 1000)).to_vec());
        let pages = [listed, Page::Drawn(PageKind::Small), Page::Drawn(PageKind::Heavy)];
        for (page, most) in pages.into_iter().zip([3, 11, 176]) {
            assert_eq!(page.most_rounds(), most);
            let drawn = |rounds| page.objects(rounds, &mut Stream::new(3, "page"));
            let usual = drawn(0);
            for rounds in 1..=most {
                let slower = drawn(rounds);
                let of = |page: &[Object]| page.iter().map(|object| (object.bytes, object.server)).collect::<Vec<_>>();
                assert_eq!(of(&slower), of(&usual));
                let mut named: Vec<u32> = slower.iter().flat_map(|object| object.names.iter().copied()).collect();
                named.sort_unstable();
                assert_eq!(named, (1..slower.len() as u32).collect::<Vec<_>>());
                // The object that waits longest is the last one: it waits for those of the rounds, and what they waited for before.
                let chain = slower.len() - rounds as usize;
                assert_eq!(depth(&slower, chain - 1), rounds, "{page}, {rounds} rounds");
            }
            assert!(depth(&drawn(most), 0) > most);
        }
    }

    #[test]
    fn a_page_has_the_objects_and_bytes_of_its_kind_and_each_object_is_named_once() {
        for (kind, objects, kib) in
            [(PageKind::Small, 13, 213), (PageKind::Median, 56, 1921), (PageKind::Heavy, 178, 9205)]
        {
            for seed in 0..20 {
                let page = kind.draw(&mut Stream::new(seed, "page"));
                assert_eq!(page.len(), objects);
                assert!(kind.most_objects() as usize >= objects);
                let bytes: u64 = page.iter().map(|object| object.bytes).sum();
                // Whole bytes, and the smallest objects are no smaller than their headers.
                assert!(bytes.abs_diff(kib << 10) < 300 * objects as u64, "{kind}: {bytes} B");
                let mut named: Vec<u32> = page.iter().flat_map(|object| object.names.iter().copied()).collect();
                named.sort_unstable();
                assert_eq!(named, (1..objects as u32).collect::<Vec<_>>());
                // Names go forward, so no object waits for itself.
                let forward =
                    |(number, object): (usize, &Object)| object.names.iter().all(|name| *name as usize > number);
                assert!(page.iter().enumerate().all(forward));
            }
        }
    }
}
