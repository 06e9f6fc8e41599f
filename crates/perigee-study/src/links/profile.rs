//! A profile: a link as a file, with both of its directions.
//!
//! ```toml
//! name = "geo"
//! title = "A plain geostationary link"
//! source = "textbook values"
//! [down]
//! rate = "100 Mbit/s"
//! delay = "300 ms"
//! queue = "7.5 MB"
//! [up]
//! rate = "10 Mbit/s"
//! delay = "300 ms"
//! ```
//!
//! A link that is the same both ways has one table `[link]` instead. The keys of a direction are those of
//! [`read_link_spec`](crate::read_link_spec).

use perigee_link::LinkSpec;
use perigee_text::{key, required, Content, Kind, Node, Reader, Section, StrictError};

use super::direction::{link, read_direction, DIRECTION};
use super::process::Load;

/// A link with both of its directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name in studies.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The source of its numbers.
    pub source: String,
    /// Towards the user.
    pub down: LinkSpec,
    /// Away from the user.
    pub up: LinkSpec,
}

/// A profile.
pub(crate) static PROFILE: Section = Section {
    name: "profile",
    keys: &[
        required("name", Kind::Text, "The name by which a study finds it: that of its file."),
        required("title", Kind::Text, "One line for people."),
        required("source", Kind::Text, "Where its numbers come from."),
        key("held", Kind::Text, "", "The measurements that it was held against: by whom, and when."),
        key("limits", Kind::Text, "", "What it cannot tell."),
        key("link", Kind::Table(&DIRECTION), "", "Both directions, where they are alike; or `down` and `up`."),
        key("down", Kind::Table(&DIRECTION), "", "The direction towards the user."),
        key("up", Kind::Table(&DIRECTION), "", "The direction away from the user."),
    ],
};

/// Reads a profile from its text; `load` returns its recordings.
///
/// # Errors
/// If the text is no profile; the error has file, line and fix.
///
/// ```
/// let text = "name = \"lan\"\ntitle = \"A wire\"\nsource = \"none\"\n[link]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n";
/// let lan = perigee_study::profile::parse(text, "lan.toml", &mut |_| Err("no files".into())).unwrap();
/// assert_eq!(lan.down, lan.up);
/// let error = perigee_study::profile::parse(&text.replace("1 ms", "1"), "lan.toml", &mut |_| Err("no files".into()));
/// assert_eq!(error.unwrap_err().to_string(), "lan.toml:6: `down.delay`: `1` has no unit; write \"1 ms\"");
/// ```
pub fn parse(text: &str, file: &str, load: &mut Load<'_>) -> Result<Profile, StrictError> {
    read(&split(perigee_text::parse(text, file)?)?, load)
}

/// Turns a tree with one table `link` for both directions into one with `down` and `up`, so that a study can lay its
/// own values over either; a tree that has `down` and `up` stays as it is.
///
/// # Errors
/// If the tree has both forms.
pub fn split(mut tree: Node) -> Result<Node, StrictError> {
    let Some(link) = tree.get("link").cloned() else { return Ok(tree) };
    for direction in ["down", "up"] {
        if let Some(other) = tree.get(direction) {
            let message = format!("`{direction}` stands beside `link`, which is for both directions");
            return Err(StrictError::new(&other.origin, message, "keep either `link`, or `down` and `up`"));
        }
    }
    if let Content::Table(entries) = &mut tree.content {
        entries.retain(|(key, _)| key != "link");
    }
    tree.set(&["down"], link.clone());
    tree.set(&["up"], link);
    Ok(tree)
}

/// Sets a value in a tree that [`split`] has prepared; `path` begins with `down`, `up`, or `link` for both.
///
/// ```
/// use perigee_study::profile;
/// let text = "name = \"lan\"\ntitle = \"A wire\"\nsource = \"none\"\n[link]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n";
/// let mut tree = profile::split(perigee_text::parse(text, "lan.toml").unwrap()).unwrap();
/// profile::set(&mut tree, &["link", "delay"], perigee_text::parse_value("\"2 ms\"", &perigee_text::Origin::place("--set")));
/// let lan = profile::read(&tree, &mut |_| Err("no files".into())).unwrap();
/// assert_eq!(lan.up.delay, perigee_link::DelaySpec::Constant(perigee_units::Time::from_millis(2)));
/// assert_eq!(lan.down, lan.up);
/// ```
pub fn set(tree: &mut Node, path: &[&str], value: Node) {
    if let ["link", inside @ ..] = path {
        for direction in ["down", "up"] {
            tree.set(&[&[direction], inside].concat(), value.clone());
        }
    } else {
        tree.set(path, value);
    }
}

/// Reads a profile from a tree that [`split`] has prepared.
///
/// # Errors
/// As [`parse`].
pub fn read(tree: &Node, load: &mut Load<'_>) -> Result<Profile, StrictError> {
    let table = open(tree)?;
    let mut direction = |key: &str| match table.table.node(key) {
        Some(node) => read_direction(node, key, load),
        None => Err(table.table.missing(key)),
    };
    let [down, up] = link(direction("down")?, direction("up")?)?;
    Ok(Profile { name: table.get("name")?, title: table.get("title")?, source: table.get("source")?, down, up })
}

/// The table of a profile that [`split`] has prepared, without checking its directions: a study may lay values over them, and
/// provide recordings that they leave open.
pub(crate) fn open(tree: &Node) -> Result<Reader<'_>, StrictError> {
    let table = Reader::open(tree, "", &PROFILE, &[])?;
    for key in ["down", "up"] {
        table.table.table(key)?.ok_or_else(|| table.table.missing(key))?;
    }
    Ok(table)
}
