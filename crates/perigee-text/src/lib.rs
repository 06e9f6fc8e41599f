//! Strict text: TOML in which every key is known, every quantity has its unit, and every error has its file, line and fix.
//!
//! [`parse`] makes a tree of [`Node`]s of a text. A file declares its tables as [`Section`]s of [`Key`]s; a [`Reader`] checks a table
//! against its section, and gives the values. The same declarations become a JSON schema ([`Document`]) and the tables of a
//! reference ([`key_table`]).

mod check;
mod reader;
mod schema;
mod section;
mod table;
mod tree;
mod values;

pub use reader::Reader;
pub use schema::{key_table, name_schema, page_markdown, pretty, Document, Further};
pub use section::{key, required, Form, Key, Kind, Process, Section, Special, DAYS_30, LARGEST};
pub use table::{Read, Table};
pub use tree::{
    clip, entries_of, items_of, json_of, keys_of, parse, parse_value, text_of, Content, Node, Origin, StrictError,
    MAX_TEXT,
};
pub use values::split_values;
