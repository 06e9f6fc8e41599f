//! The algorithms that are built in, by the names that studies have for them.

use perigee_cc::Algorithm;
use perigee_text::{clip, text_of, Content, Node, StrictError};
use perigee_units::suggestion;

use crate::outside::is_path;

/// Refuses a name that no algorithm has, of a congestion control that names no file.
pub(crate) fn known_algorithm(node: &Node, what: &str) -> Result<(), StrictError> {
    let name_node = if let Content::Table(_) = node.content { node.get("name") } else { Some(node) };
    match name_node.and_then(|node| Some((node, text_of(node)?))) {
        Some((node, name)) if !is_path(name) => built_in(name, node, what).map(drop),
        _ => Ok(()),
    }
}

/// The algorithm of a name; `what` is the key.
pub(crate) fn built_in(name: &str, node: &Node, what: &str) -> Result<&'static Algorithm, StrictError> {
    perigee_cc::find(name).ok_or_else(|| {
        let known = perigee_cc::algorithms().iter().map(Algorithm::name);
        let message = format!("`{what}`: there is no congestion control `{}`", clip(name));
        StrictError::new(&node.origin, message, suggestion(name, known))
    })
}
