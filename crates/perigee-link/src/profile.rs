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
//! [`LinkSpec::read`].

use crate::read::Load;
use crate::strict::{self, Content, Node, StrictError, Table};
use crate::LinkSpec;

/// A link with both of its directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name, by which a study finds it.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where its numbers come from.
    pub source: String,
    /// Towards the user.
    pub down: LinkSpec,
    /// Away from the user.
    pub up: LinkSpec,
}

/// Reads a profile from its text; `load` gives the recordings it names.
///
/// # Errors
/// Where the text is no profile; the error has file, line and fix.
///
/// ```
/// let text = "name = \"lan\"\ntitle = \"A wire\"\nsource = \"none\"\n[link]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n";
/// let lan = perigee_link::profile::parse(text, "lan.toml", &mut |_| Err("no files".into())).unwrap();
/// assert_eq!(lan.down, lan.up);
/// let error = perigee_link::profile::parse(&text.replace("1 ms", "1"), "lan.toml", &mut |_| Err("no files".into()));
/// assert_eq!(error.unwrap_err().to_string(), "lan.toml:6: `down.delay`: `1` has no unit; write \"600 ms\"");
/// ```
pub fn parse(text: &str, file: &str, load: &mut Load<'_>) -> Result<Profile, StrictError> {
    read(&split(strict::parse(text, file)?)?, load)
}

/// Turns a tree with one table `link` for both directions into one with `down` and `up`, so that a study can lay its
/// own values over either; a tree that has `down` and `up` stays as it is.
///
/// # Errors
/// Where the tree has both forms.
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

/// Reads a profile from a tree that [`split`] has prepared.
///
/// # Errors
/// As [`parse`].
pub fn read(tree: &Node, load: &mut Load<'_>) -> Result<Profile, StrictError> {
    let table = Table::root(tree)?;
    let mut direction = |key: &str| {
        let link = table.table(key)?.ok_or_else(|| table.missing(key))?;
        let spec = LinkSpec::read(&link, load)?;
        link.finish().map(|()| spec)
    };
    let (down, up) = (direction("down")?, direction("up")?);
    let profile = Profile {
        name: table.require("name")?,
        title: table.require("title")?,
        source: table.require("source")?,
        down,
        up,
    };
    table.finish()?;
    Ok(profile)
}
