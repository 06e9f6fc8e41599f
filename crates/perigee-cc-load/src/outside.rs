//! Functions of the host that a library calls: the kernel has none of them, and one that reads a clock gives each run another result.

use std::path::Path;

use object::{Object, ObjectSymbol};

/// The names of functions and variables that a library takes from others, each once.
pub(crate) fn outside(library: &[u8]) -> Vec<String> {
    let Ok(file) = object::File::parse(library) else { return Vec::new() };
    let taken = file.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
    let mut names: Vec<_> = taken.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect();
    names.retain(|name| !name.is_empty() && !OF_THE_COMPILER.contains(&name.as_str()));
    names.sort();
    names.dedup();
    names
}

/// A message of this severity for each name; the line is that of its last use in the text, or the first where the text does not
/// name it.
pub(crate) fn messages(names: &[String], severity: &str, path: &Path, source: &[u8]) -> String {
    let text = String::from_utf8_lossy(source);
    let line = |name: &str| {
        text.lines().zip(1..).filter(|(line, _)| has_word(line, name)).last().map_or(1, |(_, number)| number)
    };
    let message = |name: &String| {
        format!(
            "{}:{}: {severity}: it uses `{name}` of this host, which tcp.h does not have: the kernel refuses it, and results may \
             differ from run to run\n",
            path.display(),
            line(name)
        )
    };
    names.iter().map(message).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// Functions that compilers call by themselves, for copies and for the protection of the stack.
const OF_THE_COMPILER: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "__stack_chk_fail", "__tls_get_addr"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_at_its_last_use_or_at_the_first_line() {
        let source = b"long time(long *);\nint timer;\nint f(void) { return time(0); }\nint times;\n";
        let said = messages(&["time".to_owned(), "open".to_owned()], "error", Path::new("a.c"), source);
        assert!(said.starts_with("a.c:3: error: it uses `time` of this host"), "{said}");
        assert!(said.lines().nth(1).is_some_and(|line| line.starts_with("a.c:1: error: it uses `open`")), "{said}");
    }
}
