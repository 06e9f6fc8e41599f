//! How large a study may be, so that a text of some hundred kilobytes is read in seconds.

use perigee_text::{items_of, Node, Origin, StrictError};

use crate::experiments::EXPERIMENTS;

/// Refuses too many tables, for which key paths would take too long.
pub(crate) fn limit_tables(root: &Node) -> Result<(), StrictError> {
    for key in ["links", "routes", "flows", EXPERIMENTS] {
        let Some(node) = root.get(key).filter(|node| items_of(node).len() > MAX_TABLES) else { continue };
        let message = format!("{} tables of `{key}` are too many", items_of(node).len());
        let more = if key == "flows" { "; many like flows are one with a `count`" } else { "" };
        return Err(StrictError::new(&node.origin, message, format!("use up to {MAX_TABLES}{more}")));
    }
    Ok(())
}

/// Refuses too many points, each of which has a document of `size` values. `origin` is what makes them.
pub(crate) fn limit_points(count: u64, size: u64, origin: &Origin) -> Result<(), StrictError> {
    let most = MAX_POINTS.min(MAX_VALUES / size.max(1));
    if count <= most {
        return Ok(());
    }
    let message = format!("`vary` makes {count} points");
    Err(StrictError::new(origin, message, format!("shorten the lists, down to {most} points")))
}

/// Maximum of `[[links]]`, `[[routes]]`, `[[flows]]` and `[[experiments]]`, each.
const MAX_TABLES: usize = 1000;
/// Maximum points of `[vary]`.
const MAX_POINTS: u64 = 100_000;
/// Maximum values in the documents of all points: a hundred thousand points of a study of a thousand values.
const MAX_VALUES: u64 = 100_000_000;
