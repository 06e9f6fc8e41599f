//! The nodes of a study by name and number.

use std::collections::BTreeMap;

use perigee_results::Name;
use perigee_text::{clip, text_of, Node, Reader, StrictError};
use perigee_units::suggestion;

use crate::hosts::TCP;

/// The nodes and their numbers.
pub(crate) struct Nodes {
    pub(crate) names: Vec<Name>,
    numbers: BTreeMap<Name, u32>,
}

impl Nodes {
    pub(crate) fn read(study: &Reader<'_>) -> Result<Self, StrictError> {
        let names: Vec<Name> = study.get::<Vec<String>>("nodes")?.into_iter().map(Name::from).collect();
        if names.len() < 2 {
            return Err(study.error("nodes", "a study needs two nodes", "write nodes = [\"server\", \"client\"]"));
        }
        if names.len() > MAX_NODES {
            let message = format!("{} nodes are too many", names.len());
            return Err(study.error("nodes", message, format!("use up to {MAX_NODES}")));
        }
        if let Some(name) = names.iter().find(|name| TCP.find(name).is_some()) {
            let message =
                format!("the node `{name}` has the name of a TCP setting, so `[hosts]` could not tell them apart");
            return Err(study.error("nodes", message, "rename it"));
        }
        let numbers = names.iter().cloned().zip(0..).collect();
        Ok(Self { names, numbers })
    }

    pub(crate) fn number(&self, node: &Node, what: &str) -> Result<u32, StrictError> {
        let name = text_of(node).unwrap_or_default();
        self.numbers.get(name).copied().ok_or_else(|| {
            let message = format!("`{what}`: there is no node `{}`", clip(name));
            StrictError::new(&node.origin, message, suggestion(name, self.names.iter().map(|n| &**n)))
        })
    }

    /// The node named by the `key` of a table.
    pub(crate) fn named(&self, table: &Reader<'_>, key: &str) -> Result<u32, StrictError> {
        match table.table.node(key) {
            Some(node) => self.number(node, &table.dotted(key)),
            None => Err(table.table.missing(key)),
        }
    }
}

/// Maximum nodes: the table of next hops grows with their square.
const MAX_NODES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setting_has_the_name_of_what_a_node_may_be() {
        for role in
            ["sender", "receiver", "server", "client", "host", "gateway", "terminal", "router", "satellite", "proxy"]
        {
            assert!(TCP.find(role).is_none(), "{role}");
        }
    }
}
