//! What only the keys of studies take: congestion controls, nodes, key paths.

use perigee_text::{name_schema, Content, Kind, Node, Special, StrictError};
use serde_json::{json, Value};

/// A congestion control: its name, or a table of name and parameters.
pub(crate) static CC: Special =
    Special { takes: "a name, or a table of `name` and parameters", check: anything, schema: Some(cc_schema) };
/// `true` (all nodes), `false` (none), or names of nodes.
pub(crate) static NODES: Special =
    Special { takes: "`true`, `false` or names of nodes", check: nodes, schema: Some(nodes_schema) };
/// Key paths with a value each, in a table `set`.
pub(crate) static SET: Special = Special { takes: "key paths and values", check: anything, schema: Some(set_schema) };
/// Key paths with a list of values each.
pub(crate) static VARY: Special =
    Special { takes: "key paths and lists of values", check: anything, schema: Some(vary_schema) };

/// What is checked where it is read, for it depends on other keys.
fn anything(_: &Node, _: &str) -> Result<(), StrictError> {
    Ok(())
}

fn nodes(node: &Node, what: &str) -> Result<(), StrictError> {
    match node.content {
        Content::Boolean(_) => Ok(()),
        _ => Kind::Names.check(node, what),
    }
}

fn cc_schema() -> Value {
    // The names are left open: a new algorithm is one new file, and changes nothing here.
    let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$|/|\\.c$" });
    let table = json!({ "type": "object", "properties": { "name": name }, "required": ["name"] });
    json!({ "anyOf": [name, table] })
}

fn nodes_schema() -> Value {
    json!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": name_schema() }] })
}

fn set_schema() -> Value {
    json!({ "type": "object" })
}

fn vary_schema() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "array", "minItems": 1 } })
}
