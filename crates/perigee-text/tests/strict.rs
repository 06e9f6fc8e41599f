//! Values are read with their units, and every mistake has its place and its fix.

use std::fmt;

use perigee_text::{
    parse, parse_value, required, Content, Kind, Origin, Read, Reader, Section, StrictError, Table, MAX_TEXT,
};
use perigee_units::{Bytes, Rate, Time};

static RATE: Section = Section { name: "rates", keys: &[required("rate", Kind::Rate, "A rate.")] };

fn message<T: Read + fmt::Debug>(text: &str, key: &str) -> String {
    let tree = parse(text, "f.toml").unwrap_or_else(|error| panic!("{error}"));
    let table = Table::named(&tree, "").unwrap_or_else(|error| panic!("{error}"));
    there::<T>(&table, key).map_or_else(|error| error.to_string(), |value| panic!("{value:?}"))
}

fn there<T: Read>(table: &Table<'_>, key: &str) -> Result<T, StrictError> {
    table.get(key)?.ok_or_else(|| table.missing(key))
}

#[test]
fn each_mistake_names_its_line_and_its_fix() {
    assert_eq!(message::<Time>("\ndelay = 600", "delay"), "f.toml:2: `delay`: `600` has no unit; write \"600 ms\"");
    assert_eq!(
        message::<Rate>("rate = true", "rate"),
        "f.toml:1: `rate` is a boolean; write a quantity such as \"144 Mbit/s\""
    );
    let misspelled = parse("rat = 1", "f.toml").unwrap();
    let error = Reader::open(&misspelled, "", &RATE, &[]).err().unwrap();
    assert_eq!(error.to_string(), "f.toml:1: unknown key `rat`; did you mean `rate`?");
    assert_eq!(message::<u64>("x = 1", "rate"), "f.toml:1: `rate` is missing; add `rate = ...` here");
    assert_eq!(message::<u16>("n = 70000", "n"), "f.toml:1: `n` = 70000 is out of range; use a value from 0 to 65535");
    assert_eq!(message::<f64>("n = nan", "n"), "f.toml:1: `n` is a number; write a finite number without a unit");
    assert!(parse("a = \n", "f.toml").unwrap_err().to_string().starts_with("f.toml:1: "));
    assert!(parse("\n\na = 1979-05-27", "f.toml").unwrap_err().to_string().starts_with("f.toml:3: "));
}

#[test]
fn nested_tables_give_the_line_of_the_value() {
    let tree = parse("[[links]]\nname = \"a\"\n[links.down]\nrate = \"5\"\n", "f.toml").unwrap();
    let Content::Array(links) = &tree.get("links").unwrap().content else { panic!("an array of tables") };
    let down = Table::named(&links[0], "links").unwrap().table("down").unwrap().unwrap();
    let error = there::<Rate>(&down, "rate").unwrap_err().to_string();
    assert_eq!(error, "f.toml:4: `links.down.rate`: `5` has no unit; write \"5 Mbit/s\"");
    assert_eq!(links[0].origin.to_string(), "f.toml:1");
}

#[test]
fn ranges_say_what_is_allowed() {
    let tree = parse("every = \"1 h\"", "f.toml").unwrap();
    let table = Table::named(&tree, "").unwrap();
    let range = Time::from_millis(1)..=Time::from_secs(60);
    assert_eq!(
        table.require_in("every", range).unwrap_err().to_string(),
        "f.toml:1: `every` = 3600 s is out of range; use a value from 1 ms to 60 s"
    );
}

#[test]
fn a_value_laid_over_another_keeps_its_own_origin() {
    let mut tree = parse("[down]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n", "base.toml").unwrap();
    tree.overlay(parse("down.rate = \"x\"", "over.toml").unwrap());
    tree.set(&["down", "queue", "bytes"], parse_value("36", &Origin::place("--set queue.bytes=36")));
    let down = Table::named(&tree, "").unwrap().table("down").unwrap().unwrap();
    assert_eq!(there::<Time>(&down, "delay"), Ok(Time::from_millis(5)));
    assert!(there::<Rate>(&down, "rate").unwrap_err().to_string().starts_with("over.toml:1: "));
    let queue = down.table("queue").unwrap().unwrap();
    assert!(there::<Bytes>(&queue, "bytes").unwrap_err().to_string().starts_with("--set queue.bytes=36: "));
}

#[test]
fn deep_and_long_texts_are_refused_with_an_error() {
    assert!(parse(&"a.".repeat(300_000), "f").is_err());
    assert!(parse(&format!("[{}]", vec!["a"; 200_000].join(".")), "f").is_err());
    assert!(parse(&format!("a = {}", "[".repeat(300_000)), "f").is_err());
    assert!(parse(&format!("x = {{ {} = 1 }}", vec!["a"; 200_000].join(".")), "f").is_err());
    assert!(parse(&" ".repeat(MAX_TEXT + 1), "f").is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-c.=\"\\[\\]{}0-9\n ,#']{0,80}") {
        let _ = parse(&text, "f");
        let _ = parse_value(&text, &Origin::place("--set"));
    }
}

#[test]
fn an_integer_beyond_toml_s_is_out_of_range_and_no_text() {
    let node = parse_value("99999999999999999999", &Origin::place("--set seed=..."));
    let error = u64::read(&node, "seed").unwrap_err().to_string();
    assert_eq!(
        error,
        "--set seed=...: `seed` = 99999999999999999999 is out of range; use a value from 0 to 9223372036854775807"
    );
    let rounds = Kind::Integer { min: 1, max: 10 };
    for text in ["-1", "11", "99999999999999999999"] {
        let error = rounds.check(&parse_value(text, &Origin::place("x")), "rounds").unwrap_err().to_string();
        assert_eq!(error, format!("x: `rounds` = {text} is out of range; use a value from 1 to 10"));
    }
    assert!(u64::read(&parse_value("12 MB", &Origin::place("x")), "seed").unwrap_err().to_string().contains("string"));
}
