//! The study: reading of its text, and its plan of runs.

use std::sync::Arc;

use perigee_results::Name;
use perigee_text::{survey, Node, StrictError};
use perigee_units::{fingerprint, Bytes, Stream};
use serde_json::json;

use crate::clocks::check_clocks;
use crate::keys::STUDY;
use crate::links::{Built, Workshop};
use crate::live::{live, Live};
use crate::outside::Outside;
use crate::overrides::Overrides;
use crate::plan::{Point, Points};
use crate::read::{Draft, Head};
use crate::references::references;
use crate::run::{Run, RunLink, Scenario};

/// An error in a study, with its place and its fix; prints as `file:line: message; fix`.
pub type StudyError = StrictError;

/// A study. All its keys and values have been checked, except the content of other files.
#[derive(Clone, Debug)]
pub struct Study {
    root: Node,
    head: Head,
}

impl Study {
    /// Reads a study from its text; `file` is its name in errors.
    ///
    /// # Errors
    /// If anything in it is wrong, whole or reduced: in any point of `[vary]` of up to a thousand, beyond that in any of its values
    /// beside the first ones of the other keys. Profiles, recordings and authors' algorithms, and all combinations, are
    /// read by [`Study::plan`].
    ///
    /// ```
    /// let text = "name = \"a\"\nnodes = [\"x\", \"y\"]\n[[links]]\nname = \"l\"\nbetween = [\"x\", \"z\"]\n";
    /// let error = perigee_study::Study::parse(text, "a.toml").unwrap_err();
    /// assert_eq!(error.to_string(), "a.toml:1: `flows` is missing; add `flows = ...` here");
    /// ```
    pub fn parse(text: &str, file: &str) -> Result<Self, StudyError> {
        let root = perigee_text::parse(text, file)?;
        // The errors of single keys, and names that mean nothing, whatever the reader finds first.
        let mut wrong = survey(&root, "", &STUDY);
        wrong.extend(references(&root));
        wrong.sort_by_key(|error| error.origin.file_and_line().map(|(_, line)| line));
        let mut wrong = wrong.into_iter();
        match (Self::read(root), wrong.next()) {
            (Ok(study), None) => Ok(study),
            (Err(error), first) => Err(error.with(first.into_iter().chain(wrong))),
            // A value that no point uses.
            (Ok(_), Some(first)) => Err(first.with(wrong)),
        }
    }

    fn read(root: Node) -> Result<Self, StudyError> {
        let mut budget = Budget::default();
        let mut read = |reduced| {
            let points = Points::new(&root, &Overrides { reduced, set: Vec::new() })?;
            check(&points, &root, &mut budget)
        };
        let whole = read(false);
        let reduced = root.get("reduced").and_then(|_| read(true).err());
        match (whole, reduced) {
            (Ok(head), None) => Ok(Self { root, head }),
            (Err(error), None) | (Ok(_), Some(error)) => Err(error),
            (Err(mut error), Some(mut reduced)) => {
                let more = std::mem::take(&mut error.more);
                let others = std::mem::take(&mut reduced.more);
                Err(error.with(more.into_iter().chain([reduced]).chain(others)))
            }
        }
    }

    /// Its short name.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// One line for reports.
    pub fn title(&self) -> &str {
        &self.head.title
    }

    /// Its question, and the source of its numbers.
    pub fn about(&self) -> &str {
        &self.head.about
    }

    /// Lays out the runs: every point of `[vary]` once per round, the rounds one after the other. The same study and
    /// overrides give the same plan.
    ///
    /// # Errors
    /// If an override or another file is wrong.
    pub fn plan(&self, overrides: &Overrides, outside: &mut dyn Outside) -> Result<Vec<Run>, StudyError> {
        self.lay_out(overrides, outside, true)
    }

    /// Lays out the runs for real paths: without links, so that no profile or recording is read.
    ///
    /// # Errors
    /// If an override is wrong.
    pub fn plan_without_links(&self, overrides: &Overrides, outside: &mut dyn Outside) -> Result<Vec<Run>, StudyError> {
        self.lay_out(overrides, outside, false)
    }

    /// The real hosts of the nodes, and the schedule of runs.
    ///
    /// # Errors
    /// If an override is wrong.
    pub fn live(&self, overrides: &Overrides) -> Result<Live, StudyError> {
        live(&Points::new(&self.root, overrides)?.read(0, None)?.document.root)
    }

    /// The runs that [`Study::plan`] would lay out, each of which is laid out when it is asked for.
    ///
    /// # Errors
    /// If an override is wrong.
    pub fn layout(&self, overrides: &Overrides) -> Result<Layout, StudyError> {
        Layout::new(&self.root, overrides)
    }

    fn lay_out(
        &self,
        overrides: &Overrides,
        outside: &mut dyn Outside,
        with_links: bool,
    ) -> Result<Vec<Run>, StudyError> {
        let mut layout = self.layout(overrides)?;
        let mut budget = Budget::default();
        let mut scenarios = Vec::new();
        for number in 0..layout.points.count() {
            let point = layout.points.read(number, Some(&mut *outside))?;
            budget.spend(&point.draft, &self.root)?;
            let draws = point.draws.clone();
            scenarios.push((draws, Arc::new(layout.scenario(point, outside, with_links)?)));
        }
        let rounds = (0..layout.rounds).flat_map(|round| scenarios.iter().map(move |scenario| (round, scenario)));
        let run = |(index, (round, (draws, scenario))): (u32, (u32, &(String, Arc<Scenario>)))| Run {
            index,
            round,
            seed: layout.seed_of(round, draws),
            scenario: Arc::clone(scenario),
        };
        Ok((0..).zip(rounds).map(run).collect())
    }
}

/// The runs of a study, each of which is laid out when it is asked for: that takes as long as the run is large, and not as long as
/// the study is.
pub struct Layout {
    points: Points,
    rounds: u32,
    seed: u64,
    workshop: Workshop,
}

impl Layout {
    fn new(root: &Node, overrides: &Overrides) -> Result<Self, StudyError> {
        let points = Points::new(root, overrides)?;
        let Head { rounds, seed, .. } = points.read(0, None)?.draft.head;
        Ok(Self { points, rounds, seed, workshop: Workshop::default() })
    }

    /// Number of runs: every point once per round, the rounds one after the other.
    pub fn runs(&self) -> u32 {
        // A plan of more is refused.
        self.points.count() as u32 * self.rounds
    }

    /// Number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The round of a run, and its varied keys with their values as a JSON object.
    pub fn point(&self, index: u32) -> (u32, Name) {
        let number = u64::from(index);
        ((number / self.points.count()) as u32, self.points.name(number % self.points.count()))
    }

    /// The run of an index below [`Layout::runs`].
    ///
    /// # Errors
    /// If a setting of the run or another file is wrong.
    pub fn run(&mut self, index: u32, outside: &mut dyn Outside) -> Result<Run, StudyError> {
        let (number, count) = (u64::from(index), self.points.count());
        let point = self.points.read(number % count, Some(&mut *outside))?;
        let round = (number / count) as u32;
        let seed = self.seed_of(round, &point.draws);
        Ok(Run { index, round, seed, scenario: Arc::new(self.scenario(point, outside, true)?) })
    }

    /// Reads what [`Study::parse`] reads, with the other files.
    ///
    /// # Errors
    /// If an override or another file is wrong.
    pub fn check(&mut self, outside: &mut dyn Outside) -> Result<(), StudyError> {
        for number in self.points.checked() {
            let point = self.points.read(number, Some(&mut *outside))?;
            self.scenario(point, outside, true)?;
        }
        Ok(())
    }

    fn scenario(&mut self, point: Point, outside: &mut dyn Outside, with_links: bool) -> Result<Scenario, StudyError> {
        let Point { document, name, draft, .. } = point;
        let mut links = Vec::with_capacity(draft.links.len());
        for link in draft.links.iter().filter(|_| with_links) {
            links.push(self.workshop.build(link, &document, &mut |name| outside.file(name))?);
        }
        check_clocks(&draft.links, &links)?;
        let scenario = scenario(draft, name, links);
        scenario.check_waiting(&document.root)?;
        Ok(scenario)
    }

    /// All points of a round have the same random draws, except those of an `independent` key.
    fn seed_of(&self, round: u32, draws: &str) -> u64 {
        Stream::new(self.seed, &format!("round/{round}{draws}")).next_u64()
    }
}

/// A plan as JSON: `rounds`, and `points`, each of which runs once per round, the last one changing fastest. A point has
/// `point` (varied keys), `flows`, `links`, and `fingerprint`, which differs if any setting or any byte of a recording
/// differs. Its size does not depend on the number of rounds.
pub fn plan_json(runs: &[Run]) -> String {
    let point = |run: &Run| {
        let scenario = &run.scenario;
        let point: serde_json::Value = serde_json::from_str(&scenario.point).unwrap_or_default();
        json!({
            "point": point,
            "flows": scenario.flows.iter().map(|flow| &*flow.name).collect::<Vec<_>>(),
            "links": scenario.links.iter().map(|link| &*link.name).collect::<Vec<_>>(),
            "fingerprint": format!("{:016x}", scenario.fingerprint),
        })
    };
    let rounds = runs.last().map_or(0, |run| run.round + 1);
    let points: Vec<_> = runs.iter().take_while(|run| run.round == 0).map(point).collect();
    json!({"rounds": rounds, "points": points}).to_string()
}

/// Reads the points that check a study; the head of the first. Goes on after a wrong one, so that each wrong value of a list is reported.
fn check(points: &Points, root: &Node, budget: &mut Budget) -> Result<Head, StudyError> {
    let (mut head, mut wrong) = (None, Vec::new());
    for number in points.checked() {
        match points.read(number, None) {
            Ok(point) => {
                budget.spend(&point.draft, root)?;
                if head.is_none() {
                    live(&point.document.root)?;
                    head = Some(point.draft.head);
                }
            }
            Err(error) if wrong.len() < MOST_WRONG_POINTS => wrong.push(error),
            Err(_) => break,
        }
    }
    let mut wrong = wrong.into_iter();
    match (wrong.next(), head) {
        (None, Some(head)) => Ok(head),
        (Some(first), _) => Err(first.with(wrong)),
        (None, None) => unreachable!("a study has a point"),
    }
}

fn scenario(draft: Draft, point: Name, links: Vec<[Built; 2]>) -> Scenario {
    let prints: Vec<u64> = links.iter().flatten().map(|built| built.fingerprint).collect();
    let whole = fingerprint(&(&prints, &draft));
    let hosts = (&draft.flows, (&draft.proxies, &draft.processing));
    let traffic_fingerprint = fingerprint(&((&prints, &draft.next_hop), (&draft.reroutes, hosts)));
    let directions = draft.links.iter().zip(links).flat_map(|(link, [down, up])| {
        let (a, b) = link.ends;
        [("down", a, b, down), ("up", b, a, up)].map(|(direction, from, to, built)| RunLink {
            name: format!("{}.{direction}", link.name).into(),
            from,
            to,
            mtu: link.mtu,
            spec: built.spec,
        })
    });
    Scenario {
        links: directions.collect(),
        study: draft.head.name,
        point,
        nodes: draft.nodes,
        flows: draft.flows,
        proxies: draft.proxies,
        measure: draft.measure,
        time_limit: draft.head.time_limit,
        is_plain: draft.head.is_plain,
        next_hop: draft.next_hop,
        reroutes: draft.reroutes,
        processing: draft.processing,
        fingerprint: whole,
        traffic_fingerprint,
    }
}

/// Limits the memory of a plan.
#[derive(Default)]
struct Budget {
    spent: u64,
}

impl Budget {
    fn spend(&mut self, draft: &Draft, root: &Node) -> Result<(), StudyError> {
        let (nodes, links, flows) = (draft.nodes.len() as u64, draft.links.len() as u64, draft.flows.len() as u64);
        self.spent += nodes * nodes * 8 + links * 500 + flows * (1000 + nodes * 8);
        if self.spent <= MEMORY.as_u64() {
            return Ok(());
        }
        let message = format!("all points together, the last with {nodes} nodes and {flows} flows, need over {MEMORY}");
        let origin = root.get("vary").map_or(&root.origin, |vary| &vary.origin);
        Err(StrictError::new(origin, message, "shorten the lists of `vary`, or split the study"))
    }
}

/// Approximate maximum memory of a plan.
const MEMORY: Bytes = Bytes::new(1_000_000_000);
/// Wrong points after which a check ends.
const MOST_WRONG_POINTS: usize = 100;
