//! Strict text: TOML in which every key is known, every quantity has its unit, and every error has its file, line and fix.
//!
//! [`parse`] makes a tree of [`Node`]s of a text. A file declares its tables as [`Section`]s of [`Key`]s; a [`Reader`] checks a table
//! against its section, and gives the values. The same declarations become a JSON schema ([`Document`]) and the tables of a
//! reference ([`key_table`]).
//!
//! ```
//! use perigee_text::{parse, Content};
//! let tree = parse("delay = \"5 ms\"\nburst = \"3 kB\"\n", "a.toml").unwrap();
//! let burst = tree.get("burst").unwrap();
//! assert_eq!((burst.origin.to_string().as_str(), &burst.content), ("a.toml:2", &Content::Text("3 kB".into())));
//! ```

mod check;
mod reader;
mod schema;
mod section;
mod survey;
mod table;
mod tree;
mod values;

pub use reader::Reader;
pub use schema::{key_table, name_schema, page_markdown, pretty, Document, Further};
pub use section::{key, required, Form, Key, Kind, Process, Section, Special, DAYS_30, LARGEST};
pub use survey::survey;
pub use table::{Read, Table};
pub use tree::{
    clip, entries_of, items_of, json_of, keys_of, parse, parse_value, text_of, Content, Node, Origin, StrictError,
    MAX_TEXT,
};
pub use values::split_values;
