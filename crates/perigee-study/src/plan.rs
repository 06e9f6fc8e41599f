//! From a document to runs: the points of each experiment's `[vary]`, each read as a scenario, each in every round.

use std::collections::BTreeSet;

use perigee_results::Name;
use perigee_text::{
    clip, entries_of, items_of, json_of, keys_of, parse_value, split_values, text_of, Content, Kind, Node, Origin,
    Reader, StrictError,
};
use perigee_units::suggestion;

use crate::document::Document;
use crate::experiments::{chosen, experiments, Experiment, EXPERIMENTS};
use crate::keys::{MAX_RUNS, STUDY};
use crate::limits::{limit_points, limit_tables};
use crate::outside::Outside;
use crate::overrides::Overrides;
use crate::read::{draft, Draft};
use crate::values::{given, json, named, refuse_twice};

/// The settings of one choice: key paths and values.
type Choice = Vec<(String, Node)>;

/// One dimension of `[vary]`.
struct Axis {
    name: String,
    origin: Origin,
    choices: Vec<Choice>,
    /// Names of the choices, if they are variants.
    variants: Vec<String>,
}

/// All points of a study: those of its experiments one after the other, or of the whole study without experiments.
pub(crate) struct Points {
    grids: Vec<Grid>,
    count: u64,
}

/// A point of a study.
pub(crate) struct Point {
    pub(crate) document: Document,
    /// Its settings as JSON.
    pub(crate) name: Name,
    /// The tag that separates its random draws from those of other points of its round; empty if it shares them.
    pub(crate) draws: String,
    pub(crate) draft: Draft,
}

/// The points of one experiment: a document with its overrides, and the axes, of which all combinations are points.
struct Grid {
    experiment: Option<String>,
    document: Document,
    axes: Vec<Axis>,
    count: u64,
    /// Names of axes whose values draw independently.
    independent: Vec<String>,
    /// Key paths of `--also` that do not vary here but may in another experiment.
    not_added: BTreeSet<String>,
}

impl Points {
    /// The points of a study. The file is overlaid, in this order, by the settings of an experiment, `[reduced]` if requested, the
    /// overrides, `[vary]`.
    pub(crate) fn new(root: &Node, overrides: &Overrides) -> Result<Self, StrictError> {
        limit_tables(root)?;
        let experiments = experiments(root)?;
        let chosen = chosen(&experiments, overrides)?;
        let base = base_of(root);
        let mut grids = Vec::new();
        let mut add = |experiment| {
            grids.push(Grid::new(root, &base, experiment, overrides)?);
            let count = grids.iter().fold(0, |sum: u64, grid: &Grid| sum.saturating_add(grid.count));
            let last = grids.iter().flat_map(|grid| &grid.axes).last();
            limit_points(count, base.size(), last.map_or(&root.origin, |axis| &axis.origin))?;
            Ok(count)
        };
        let count = match experiments[..] {
            [] => add(None)?,
            _ => chosen.map(Some).try_fold(0, |_, one| add(one))?,
        };
        refuse_idle_independent(root, &experiments, &grids)?;
        let idle = grids[0].not_added.iter().find(|path| grids.iter().all(|grid| grid.not_added.contains(*path)));
        if let Some(path) = idle {
            let origin = Origin::place(&format!("--also {}", clip(path)));
            let message = format!("`{}` varies in none of the experiments", clip(path));
            return Err(StrictError::new(&origin, message, "give all values with --vary"));
        }
        Ok(Self { grids, count })
    }

    /// Number of points.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The numbers of the points that are read to check a study: of an experiment with many points, those that differ from its
    /// first in one axis only, so that each value of each axis is read.
    pub(crate) fn checked(&self) -> Vec<u64> {
        let mut before = 0;
        let of_grid = self.grids.iter().flat_map(|grid| {
            let first = before;
            before += grid.count;
            grid.checked().into_iter().map(move |number| first + number)
        });
        of_grid.collect()
    }

    /// The settings of a point as JSON.
    pub(crate) fn name(&self, number: u64) -> Name {
        let (grid, rest) = self.grid_of(number);
        grid.name(rest)
    }

    /// The point of this number: its document, its settings as JSON, its draws, and its scenario. The last axis changes fastest.
    /// Without an outside, another algorithm stands for an author's file.
    pub(crate) fn read(&self, number: u64, outside: Option<&mut dyn Outside>) -> Result<Point, StrictError> {
        let (grid, rest) = self.grid_of(number);
        let document = grid.document_of(rest)?;
        let draft = draft(&document.root, outside)?;
        if u64::from(draft.head.rounds) * self.count > MAX_RUNS {
            let origin = document.root.get("rounds").map_or(&document.root.origin, |node| &node.origin);
            let message = format!("{} rounds of {} points are too many runs", draft.head.rounds, self.count);
            return Err(StrictError::new(origin, message, format!("lower `rounds`, down to {MAX_RUNS} runs")));
        }
        Ok(Point { document, name: grid.name(rest), draws: grid.draws(rest), draft })
    }

    /// The experiment of a point, and the number of the point in it.
    fn grid_of(&self, number: u64) -> (&Grid, u64) {
        let mut rest = number;
        let found = self.grids.iter().find(|grid| {
            let is_here = rest < grid.count;
            rest -= if is_here { 0 } else { grid.count };
            is_here
        });
        (found.unwrap_or(&self.grids[0]), rest)
    }
}

impl Grid {
    /// The points of an experiment of the study `root`; `base` is [`base_of`] it.
    fn new(
        root: &Node,
        base: &Node,
        experiment: Option<&Experiment>,
        overrides: &Overrides,
    ) -> Result<Self, StrictError> {
        let mut grid = Self {
            experiment: experiment.map(|one| one.name.clone()),
            document: Document::new(base.clone()),
            axes: axes(root.get("vary"))?,
            count: 1,
            independent: Vec::new(),
            not_added: BTreeSet::new(),
        };
        if let Some(experiment) = experiment {
            for (path, value) in &experiment.set {
                grid.lay(path, value)?;
            }
            grid.axes.extend(axes(experiment.vary.as_ref())?);
        }
        grid.refuse_overlaps()?;
        if overrides.reduced {
            for (path, value) in reduced(root)?.iter().chain(experiment.iter().flat_map(|one| &one.reduced)) {
                match path.strip_prefix("vary.") {
                    Some(varied) => grid.replace(axis(varied, value)?)?,
                    None => grid.lay(path, value)?,
                }
            }
        }
        for (path, text) in overrides.set.iter().filter(|(path, _)| path != EXPERIMENTS) {
            match path.strip_prefix("vary.") {
                Some(varied) => grid.vary(varied, text)?,
                None => grid.lay(path, &grid.setting(path, text))?,
            }
        }
        grid.refuse_overlaps()?;
        for axis in &grid.axes {
            grid.count = grid.count.saturating_mul(axis.choices.len() as u64);
        }
        let study = Reader::open(&grid.document.root, "", &STUDY, &[])?;
        grid.independent = study.get("independent")?;
        Ok(grid)
    }

    /// See [`Points::checked`].
    fn checked(&self) -> Vec<u64> {
        if self.count <= FEW_POINTS {
            return (0..self.count).collect();
        }
        let mut below = self.count;
        let others = self.axes.iter().flat_map(|axis| {
            let choices = axis.choices.len() as u64;
            below /= choices;
            let step = below;
            (1..choices).map(move |choice| choice * step)
        });
        std::iter::once(0).chain(others).collect()
    }

    /// The choice that each axis makes at a point: the axis, and the number of the choice.
    fn choices(&self, number: u64) -> impl Iterator<Item = (&Axis, usize)> {
        let mut below = self.count;
        self.axes.iter().map(move |axis| {
            below /= axis.choices.len() as u64;
            (axis, (number / below % axis.choices.len() as u64) as usize)
        })
    }

    /// The document of a point.
    fn document_of(&self, number: u64) -> Result<Document, StrictError> {
        let mut document = self.document.clone();
        for (axis, choice) in self.choices(number) {
            axis.choices[choice].iter().try_for_each(|(path, value)| document.assign(path, value))?;
        }
        Ok(document)
    }

    /// The settings of a point as JSON.
    fn name(&self, number: u64) -> Name {
        let mut parts: Vec<String> =
            self.experiment.iter().map(|name| format!("\"experiment\":{}", json(name))).collect();
        for (axis, choice) in self.choices(number) {
            let setting = |(path, value): &(String, Node)| format!("{}:{}", json(path), json_of(value));
            let mut set: Vec<String> = axis.choices[choice].iter().map(setting).collect();
            match axis.variants.get(choice) {
                None => parts.append(&mut set),
                Some(name) => {
                    set.insert(0, format!("\"name\":{}", json(name)));
                    parts.push(format!("{}:{{{}}}", json(&axis.name), set.join(",")));
                }
            }
        }
        format!("{{{}}}", parts.join(",")).into()
    }

    /// Returns the tag that separates a point's draws from those of the others: its values on independent axes as JSON, empty without any.
    fn draws(&self, number: u64) -> String {
        let mut draws = String::new();
        for (axis, choice) in self.choices(number) {
            if self.independent.contains(&axis.name) {
                let values =
                    axis.choices[choice].iter().map(|(path, value)| format!("{}:{}", json(path), json_of(value)));
                draws.push('/');
                draws.push_str(&values.collect::<Vec<_>>().join(","));
            }
        }
        draws
    }

    /// The value of a `--set`.
    fn setting(&self, path: &str, text: &str) -> Node {
        let origin = Origin::place(&format!("--set {}", clip(&format!("{path}={text}"))));
        if self.axis_of_variants(path).is_some() {
            return named(text, &origin);
        }
        given(path, text, &origin)
    }

    /// The axis whose variants have this key.
    fn axis_of_variants(&self, key: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == key && !axis.variants.is_empty())
    }

    /// Sets a key path for all points. It replaces an axis that varies this path. The key of variants takes the name of one.
    fn lay(&mut self, path: &str, value: &Node) -> Result<(), StrictError> {
        if let Some(place) = self.axis_of_variants(path) {
            let choice = self.axes[place].choice_called(value)?;
            let axis = self.axes.remove(place);
            return axis.choices[choice].iter().try_for_each(|(path, value)| self.document.assign(path, value));
        }
        let paths: BTreeSet<Vec<String>> = self.document.expand(path, value)?.into_iter().collect();
        self.pin(&paths, &value.origin)?;
        self.document.assign(path, value)
    }

    /// Varies a key path over a list of values, in place of an axis that varies this path; a list that begins with `+` is
    /// added to the values of that axis.
    fn vary(&mut self, path: &str, text: &str) -> Result<(), StrictError> {
        let (option, list) = match text.trim_start().strip_prefix('+') {
            Some(more) => ("--also", more),
            None => ("--vary", text),
        };
        let origin = Origin::place(&format!("{option} {}", clip(&format!("{path}={}", list.trim()))));
        if (path, option) == (LINKED, "--vary") {
            return self.replace(axis(LINKED, &parse_value(list, &origin))?);
        }
        let is_of_variants = self.axis_of_variants(path).is_some();
        let value = |text| if is_of_variants { named(text, &origin) } else { given(path, text, &origin) };
        let values: Vec<Node> = split_values(list).into_iter().map(value).collect();
        if values.iter().any(|value| matches!(&value.content, Content::Text(text) if text.is_empty())) {
            return Err(StrictError::new(&origin, "a value is empty", "write --vary flow.cc=cubic,bbr"));
        }
        if option == "--also" {
            return self.extend(path, values, &origin);
        }
        refuse_twice(&values, path)?;
        if let Some(place) = self.axis_of_variants(path) {
            let axis = &mut self.axes[place];
            let kept = values.iter().map(|value| axis.choice_called(value)).collect::<Result<Vec<_>, _>>()?;
            axis.variants = kept.iter().map(|&choice| axis.variants[choice].clone()).collect();
            axis.choices = kept.iter().map(|&choice| axis.choices[choice].clone()).collect();
            return Ok(());
        }
        let choices = values.into_iter().map(|value| vec![(path.to_owned(), value)]).collect();
        self.replace(Axis { name: path.to_owned(), origin, choices, variants: Vec::new() })
    }

    /// Adds an axis in place of those that vary only its paths.
    fn replace(&mut self, axis: Axis) -> Result<(), StrictError> {
        let place = self.pin(&axis.paths(&self.document)?, &axis.origin)?;
        self.axes.insert(place, axis);
        Ok(())
    }

    /// Adds values to the axis that varies a key path, or a part of what the path stands for.
    fn extend(&mut self, path: &str, values: Vec<Node>, origin: &Origin) -> Result<(), StrictError> {
        let paths: BTreeSet<Vec<String>> = self.document.expand(path, &values[0])?.into_iter().collect();
        let mut found = Vec::new();
        for (number, axis) in self.axes.iter().enumerate() {
            let varied = axis.paths(&self.document)?;
            if varied.iter().any(|path| paths.contains(path)) {
                found.push((number, varied.is_subset(&paths) && axis.name != LINKED));
            }
        }
        let what = clip(path);
        match found[..] {
            [(number, true)] => {
                let axis = &mut self.axes[number];
                let name = axis.name.clone();
                axis.choices.extend(values.into_iter().map(|value| vec![(name.clone(), value)]));
                let all: Vec<Node> = axis.choices.iter().flatten().map(|(_, value)| value.clone()).collect();
                refuse_twice(&all, &name)
            }
            [(number, false)] => {
                let message = format!("`{what}` varies together with others ({})", self.axes[number].origin);
                Err(StrictError::new(origin, message, "add the values there"))
            }
            [] if self.experiment.is_some() => {
                self.not_added.insert(path.to_owned());
                Ok(())
            }
            [] => {
                let message = format!("`{what}` does not vary in the study");
                let varied: Vec<_> = self.axes.iter().map(|axis| clip(&axis.name)).collect();
                let fix = match varied[..] {
                    [] => "give all values with --vary".to_owned(),
                    _ => format!("give all values with --vary, or add to {}", varied.join(", ")),
                };
                Err(StrictError::new(origin, message, fix))
            }
            _ => {
                let names: Vec<_> = found.iter().map(|(number, _)| clip(&self.axes[*number].name)).collect();
                let message = format!("`{what}` varies under several keys");
                Err(StrictError::new(origin, message, format!("name one of {}", names.join(", "))))
            }
        }
    }

    /// Removes the axes that vary only these paths; returns the place of the first of them, or that after all axes.
    fn pin(&mut self, paths: &BTreeSet<Vec<String>>, origin: &Origin) -> Result<usize, StrictError> {
        let (mut kept, mut place) = (Vec::new(), None);
        for axis in std::mem::take(&mut self.axes) {
            let varied = axis.paths(&self.document)?;
            if varied.is_subset(paths) {
                place.get_or_insert(kept.len());
                continue;
            }
            if let Some(lost) = paths.iter().find(|path| overwrites(&varied, path)) {
                let message = format!("`{}` varies in the study ({})", clip(&lost.join(".")), axis.origin);
                let fix = format!("set all that `vary` has under `{}`", axis.name);
                return Err(StrictError::new(origin, message, fix));
            }
            kept.push(axis);
        }
        self.axes = kept;
        Ok(place.unwrap_or(self.axes.len()))
    }

    fn refuse_overlaps(&self) -> Result<(), StrictError> {
        let mut seen: Vec<(&Axis, BTreeSet<Vec<String>>)> = Vec::new();
        for axis in &self.axes {
            let varied = axis.paths(&self.document)?;
            for (other, before) in &seen {
                if let Some(path) = before.iter().find(|path| overwrites(&varied, path)) {
                    let message = format!("`{}` varies under `{}` and `{}`", path.join("."), other.name, axis.name);
                    return Err(StrictError::new(&axis.origin, message, "keep one of them"));
                }
            }
            seen.push((axis, varied));
        }
        Ok(())
    }
}

impl Axis {
    /// The number of the variant of this name.
    fn choice_called(&self, name: &Node) -> Result<usize, StrictError> {
        let text = text_of(name).map_or_else(|| json_of(name).to_string(), str::to_owned);
        self.variants.iter().position(|known| *known == text).ok_or_else(|| {
            let message = format!("`{}` has no variant `{}`", clip(&self.name), clip(&json_of(name).to_string()));
            StrictError::new(&name.origin, message, suggestion(&text, self.variants.iter().map(String::as_str)))
        })
    }

    /// All paths it sets, in canonical form.
    fn paths(&self, document: &Document) -> Result<BTreeSet<Vec<String>>, StrictError> {
        let mut paths = BTreeSet::new();
        let mut before = "";
        for (path, value) in self.choices.iter().flatten() {
            // A thousand values of one path, which may stand for a thousand flows, set the same.
            if std::mem::replace(&mut before, path.as_str()) == path.as_str() {
                continue;
            }
            let expanded = document.expand(path, value)?;
            if let Some(root) = expanded
                .iter()
                .filter_map(|p| p.first())
                .find(|r| matches!(&***r, "seed" | "rounds" | "independent" | "live"))
            {
                let message = format!("`{root}` cannot vary");
                let fix = match &**root {
                    "live" | "independent" => "it is how the study is carried out, not what",
                    _ => "each round has its own seed already: raise `rounds` instead",
                };
                return Err(StrictError::new(&self.origin, message, fix));
            }
            paths.extend(expanded);
        }
        Ok(paths)
    }
}

/// Refuses an independent key that varies in no experiment.
fn refuse_idle_independent(root: &Node, experiments: &[Experiment], grids: &[Grid]) -> Result<(), StrictError> {
    let own = experiments.iter().filter_map(|one| one.vary.as_ref()).chain(root.get("vary"));
    let axes = grids.iter().flat_map(|grid| &grid.axes).map(|axis| axis.name.as_str());
    let known: BTreeSet<&str> = own.flat_map(keys_of).chain(axes).collect();
    for grid in grids {
        if let Some(idle) = grid.independent.iter().find(|name| !known.contains(name.as_str())) {
            let origin = grid.document.root.get("independent").map_or(&root.origin, |node| &node.origin);
            let message = format!("`independent` names `{}`, which is no key of `vary`", clip(idle));
            return Err(StrictError::new(origin, message, suggestion(idle, known.into_iter())));
        }
    }
    Ok(())
}

/// Whether setting one of `by` overwrites `path`: it is the same path, or a prefix.
fn overwrites(by: &BTreeSet<Vec<String>>, path: &[String]) -> bool {
    (1..=path.len()).any(|n| by.contains(&path[..n]))
}

/// Returns the beginning of all points' documents: the study without the keys that make the points.
pub(crate) fn base_of(root: &Node) -> Node {
    let is_kept = |(key, _): &&(String, Node)| !["vary", "reduced", EXPERIMENTS].contains(&key.as_str());
    let kept = entries_of(root).iter().filter(is_kept).cloned().collect();
    Node { content: Content::Table(kept), origin: root.origin.clone() }
}

/// The axes of a table `vary`.
fn axes(vary: Option<&Node>) -> Result<Vec<Axis>, StrictError> {
    let Some(vary) = vary else { return Ok(Vec::new()) };
    let Content::Table(entries) = &vary.content else {
        return Err(StrictError::new(
            &vary.origin,
            format!("`vary` is {}", vary.kind()),
            "write its keys under [vary]",
        ));
    };
    if entries.len() > MAX_AXES {
        let message = format!("`vary` has {} keys", entries.len());
        return Err(StrictError::new(&vary.origin, message, format!("use up to {MAX_AXES}, or `linked`")));
    }
    entries.iter().map(|(name, node)| axis(name, node)).collect()
}

fn axis(name: &str, node: &Node) -> Result<Axis, StrictError> {
    let what = clip(name);
    let error = |message: String, fix: &str| Err(StrictError::new(&node.origin, message, fix));
    let linked = name == LINKED || is_of_variants(name, node);
    match &node.content {
        Content::Array(items) if items.is_empty() => error(format!("`vary.{what}` is empty"), "remove it"),
        Content::Array(items) => {
            let choice = |item: &Node| match &item.content {
                Content::Table(entries) if linked => Ok(entries.clone()),
                _ if linked => {
                    let message = format!("`vary.{what}` holds {}", item.kind());
                    Err(StrictError::new(&item.origin, message, "write tables of key paths: { \"flow.cc\" = \"bbr\" }"))
                }
                _ => Ok(vec![(name.to_owned(), item.clone())]),
            };
            let mut choices = items.iter().map(choice).collect::<Result<Vec<Choice>, _>>()?;
            refuse_twice(items, &format!("vary.{name}"))?;
            let variants = if linked && name != LINKED { variants(name, &mut choices, node)? } else { Vec::new() };
            Ok(Axis { name: name.to_owned(), origin: node.origin.clone(), choices, variants })
        }
        Content::Table(_) => {
            error(format!("`vary.{what}` is a table"), "write the whole key path in quotes: \"flow.cc\" = [...]")
        }
        _ => error(format!("`vary.{what}` is {}", node.kind()), "write a list of values in brackets"),
    }
}

/// Whether a key of `[vary]` is a name of the author's own, whose tables are variants.
fn is_of_variants(name: &str, node: &Node) -> bool {
    let is_table = |item: &Node| matches!(item.content, Content::Table(_));
    !name.contains('.') && name != LINKED && STUDY.find(name).is_none() && items_of(node).iter().any(is_table)
}

/// Takes the names out of variants.
fn variants(axis: &str, choices: &mut [Choice], node: &Node) -> Result<Vec<String>, StrictError> {
    let name = Node { content: Content::Text(axis.to_owned()), origin: node.origin.clone() };
    Kind::Name.check(&name, "the key of variants")?;
    if RESERVED.contains(&axis) {
        let message = format!("`{axis}` cannot be the key of variants: results have it");
        return Err(StrictError::new(&node.origin, message, "choose another, as `sender`"));
    }
    let mut names: Vec<String> = Vec::new();
    for (choice, table) in choices.iter_mut().zip(items_of(node)) {
        let error = |origin: &Origin, message: String, fix: &str| Err(StrictError::new(origin, message, fix));
        let Some(place) = choice.iter().position(|(path, _)| path == "name") else {
            let message = format!("a variant of `vary.{}` has no `name`", clip(axis));
            return error(&table.origin, message, "add name = \"...\"");
        };
        let (_, given) = choice.remove(place);
        match text_of(&given) {
            Some(name) if !name.is_empty() && !names.iter().any(|other| other == name) => names.push(name.to_owned()),
            Some(name) => {
                let message = format!("`vary.{}` has the name \"{}\" twice, or it is empty", clip(axis), clip(name));
                return error(&table.origin, message, "give each its own name");
            }
            None => {
                let message = format!("`vary.{}` has {} as a name", clip(axis), given.kind());
                return error(&given.origin, message, "write name = \"...\"");
            }
        }
    }
    Ok(names)
}

/// The key paths and values of `[reduced]`.
fn reduced(root: &Node) -> Result<&[(String, Node)], StrictError> {
    let Some(reduced) = root.get("reduced") else {
        let fix = "add [reduced] with set = { rounds = 1, ... }, or run it whole";
        return Err(StrictError::new(&root.origin, "the study declares no reduced size", fix));
    };
    Ok(reduced.get("set").map_or(&[], entries_of))
}

/// Names in results for the algorithm, the flow and the experiment of a row, which no variants may use.
const RESERVED: [&str; 3] = ["cc", "flow", "experiment"];
/// The key of `[vary]` under which several paths vary together.
const LINKED: &str = "linked";
/// Maximum keys of `[vary]`.
const MAX_AXES: usize = 100;
/// Maximum points of an experiment that are all read to check a study.
const FEW_POINTS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_point_does_not_grow_with_the_lists() {
        let nodes = |values: u32| {
            let list: Vec<String> = (0..values).map(|n| format!("\"{n} ms\"")).collect();
            let list = list.join(", ");
            let text = format!(
                "name = \"a\"\nnodes = [\"x\", \"y\"]\nlinks = [{{ name = \"l\", between = [\"x\", \"y\"] }}]\n\
                 flows = [{{ name = \"d\", from = \"x\", to = \"y\", size = \"1 MB\" }}]\n\
                 vary = {{ \"flow.start\" = [{list}] }}\nreduced = {{ set = {{ \"vary.flow.start\" = [{list}] }} }}\n"
            );
            let root = perigee_text::parse(&text, "a.toml").expect("it is TOML");
            let points = Points::new(&root, &Overrides::default()).expect("it is right");
            let point = points.read(u64::from(values) - 1, None).expect("it is right");
            format!("{:?}", point.document.root).len()
        };
        assert_eq!(nodes(1000), nodes(1000 - 1), "the values have the same length");
    }
}
