//! Kinds of studies only: congestion controls, nodes, key paths.

use perigee_text::{name_schema, Content, Kind, Read, Special};
use serde_json::json;

use crate::built_in::known_algorithm;

/// A congestion control: its name, or a table of name and parameters, which are checked where it is read.
pub(crate) static CC: Special = Special {
    takes: "a name, or a table of `name` and parameters",
    check: known_algorithm,
    schema: Some(|| {
        // The names are left open: a new algorithm is one new file, and changes nothing here.
        let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$|/|\\.c$" });
        let table = json!({ "type": "object", "properties": { "name": name }, "required": ["name"] });
        json!({ "anyOf": [name, table] })
    }),
};
/// `true` (all nodes), `false` (none), or names of nodes.
pub(crate) static NODES: Special = Special {
    takes: "`true`, `false` or names of nodes",
    check: |node, what| match node.content {
        Content::Boolean(_) => Ok(()),
        _ => Kind::Names.check(node, what),
    },
    schema: Some(|| json!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": name_schema() }] })),
};
/// Key paths with a value each, in a table `set`. They are checked where they are read.
pub(crate) static SET: Special =
    Special { takes: "key paths and values", check: |_, _| Ok(()), schema: Some(|| json!({ "type": "object" })) };
/// Keys of `[vary]`. They are checked where they are read.
pub(crate) static VARIED: Special = Special {
    takes: "keys of `vary`",
    check: |node, what| <Vec<String>>::read(node, what).map(drop),
    schema: Some(|| json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })),
};
/// Key paths with a list of values each. They are checked where they are read.
pub(crate) static VARY: Special = Special {
    takes: "key paths and lists of values",
    check: |_, _| Ok(()),
    schema: Some(|| json!({ "type": "object", "additionalProperties": { "type": "array", "minItems": 1 } })),
};
