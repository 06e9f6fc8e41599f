//! A compiler that crashes says so at length, and little of it is about the author's file: one line takes its place.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Part of each message about a division that BPF lacked before its fourth instruction set: clang 14 crashes on it.
const SIGNED: &str = "igned division";
/// How lines begin with which the words of a crash begin.
const BEGINNINGS: &[&str] = &[
    "fatal error: error in backend",
    "LLVM ERROR",
    "PLEASE submit a bug report",
    "Stack dump:",
    "Please submit a full bug report",
    "clang: error: unable to execute command",
    "clang: error: clang frontend command failed",
];

/// Whether these messages are, or end with, those of a crash, or of a signed division.
pub(crate) fn is_in(messages: &str) -> bool {
    messages.lines().any(is_of_crash)
}

/// Whether a signed division is what the compiler could not compile, and it does not say where.
pub(crate) fn lacks_place(messages: &str) -> bool {
    messages.contains(SIGNED) && place(messages).is_none()
}

/// The messages with one line in place of a crash; `division` is where a signed division is, as `FILE:LINE:COLUMN`, where the messages
/// do not say it.
pub(crate) fn condensed(source: &Path, messages: &str, division: Option<&str>) -> String {
    let mut text: String =
        messages.lines().take_while(|line| !is_of_crash(line)).flat_map(|line| [line, "\n"]).collect();
    let said = messages.lines().find(|line| is_of_crash(line)).unwrap_or_default();
    if messages.contains(SIGNED) {
        let place = division.or_else(|| place(messages)).map_or_else(|| source.display().to_string(), str::to_owned);
        let function = messages.lines().find_map(|line| line.strip_prefix("In function: "));
        let within =
            function.filter(|_| !place.contains(':')).map_or_else(String::new, |name| format!(", in `{name}`"));
        let lacks = "which the compiler has not for BPF: divide unsigned numbers, or the magnitudes";
        let _ = writeln!(text, "{place}: error: signed division{within}, {lacks}");
    } else if !text.contains("internal compiler error") {
        let _ = writeln!(text, "{}:1: error: the compiler crashed: {}", source.display(), said.trim());
    }
    text
}

fn is_of_crash(line: &str) -> bool {
    line.contains(SIGNED) || BEGINNINGS.iter().any(|start| line.starts_with(start))
}

/// The place of a signed division in the messages, `FILE:LINE:COLUMN`: the last of the words before `Please` or a colon.
fn place(messages: &str) -> Option<&str> {
    let line = messages.lines().find(|line| line.contains(SIGNED))?;
    line.split([' ', ',']).find_map(|word| {
        let word = word.trim_end_matches("Please").trim_end_matches(':');
        let mut parts = word.rsplitn(3, ':');
        let (column, number, file) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(column) && is_number(number) && !file.is_empty()).then_some(word)
    })
}

/// The place of a signed division, in the text that LLVM writes of a program as it is optimized and as it is not: what the optimizer
/// has merged has lost its place, and is one of the others of its kind by the same number.
pub(crate) fn place_in(optimized: &str, plain: &str) -> Option<String> {
    let left = divisions(optimized);
    if let Some(place) = left.iter().find_map(|division| division.place.clone()) {
        return Some(place);
    }
    let merged = left.first()?;
    divisions(plain).into_iter().find(|one| (one.kind, one.by) == (merged.kind, merged.by))?.place
}

/// A signed division or remainder.
struct Division<'a> {
    kind: &'a str,
    /// The divisor; `None`: no constant.
    by: Option<&'a str>,
    /// `FILE:LINE:COLUMN`.
    place: Option<String>,
}

fn divisions(program: &str) -> Vec<Division<'_>> {
    let nodes: BTreeMap<&str, &str> = program.lines().filter_map(|line| line.split_once(" = ")).collect();
    let field = |node: &str, name: &str| {
        let rest = node.split(&format!("{name}: ")).nth(1)?;
        Some(rest.split([',', ')']).next()?.trim_matches('"').to_owned())
    };
    let place = |line: &str| {
        let at = nodes.get(line.split("!dbg ").nth(1)?.split(',').next()?.trim())?;
        let scope = field(at, "scope")?;
        let file = field(nodes.get(&*field(nodes.get(&*scope)?, "file")?)?, "filename")?;
        Some(format!("{file}:{}:{}", field(at, "line")?, field(at, "column")?))
    };
    let of = |line| {
        let (_, instruction) = str::split_once(line, " = ")?;
        let (kind, operands) = instruction.split_once(' ').filter(|(kind, _)| ["sdiv", "srem"].contains(kind))?;
        let by = operands.split(", ").nth(1)?.trim();
        Some(Division { kind, by: Some(by).filter(|by| !by.starts_with('%')), place: place(line) })
    };
    program.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLANG_14: &str = "x.c:1:2: warning: unused\n\
        Error at line 2: Unsupport signed division for DAG: 0x1: i32 = sdiv 0x2, 0x3, my/x.c:2:11Please convert to unsigned div/mod.\n\
        fatal error: error in backend: Cannot select: 0x1: i32 = sdiv 0x2, 0x3, my/x.c:2:11\n  0x2: i32,ch = CopyFromReg\n\
        In function: f\nPLEASE submit a bug report to https://x and include\nStack dump:\n0.\tProgram arguments: clang\n";

    #[test]
    fn a_signed_division_is_named_with_its_line_and_a_crash_is_one_line() {
        assert!(is_in(CLANG_14) && !lacks_place(CLANG_14));
        let said = condensed(Path::new("x.c"), CLANG_14, None);
        let (kept, division) = said.split_once('\n').unwrap();
        assert_eq!(kept, "x.c:1:2: warning: unused");
        assert!(division.starts_with("my/x.c:2:11: error: signed division, which"), "{division}");
        assert_eq!(said.lines().count(), 2);
        let clang_19 = "error: x.c:2:11: in function f i32 (i32, i32): unsupported signed division, please convert to unsigned div/mod.";
        assert!(condensed(Path::new("x.c"), clang_19, None).starts_with("x.c:2:11: error: signed division, which"));
        let without = CLANG_14.replace(", my/x.c:2:11", "");
        assert!(lacks_place(&without));
        assert!(condensed(Path::new("x.c"), &without, None).contains("x.c: error: signed division, in `f`, which"));
        assert!(
            condensed(Path::new("x.c"), &without, Some("y.h:7:8")).contains("y.h:7:8: error: signed division, which")
        );
        let other = "x.c:9:1: error: no\nLLVM ERROR: out of registers\nPLEASE submit a bug report\n#0 0x7\n";
        let said = "x.c:9:1: error: no\nx.c:1: error: the compiler crashed: LLVM ERROR: out of registers\n";
        assert_eq!(condensed(Path::new("x.c"), other, None), said);
        let gcc = "x.c:5:1: internal compiler error: Segmentation fault\nPlease submit a full bug report, with\nSee <file:///x>\n";
        assert_eq!(condensed(Path::new("x.c"), gcc, None), "x.c:5:1: internal compiler error: Segmentation fault\n");
        assert!(!is_in("x.c:9:1: error: no such thing"));
    }

    #[test]
    fn a_division_that_has_lost_its_line_is_found_in_the_program() {
        let merged = "  %1 = srem i32 %0, 25\n";
        let plain = "  %1 = srem i32 %0, %3, !dbg !8\n  %2 = srem i32 %0, 25, !dbg !7\n\
            !1 = !DIFile(filename: \"my/x.c\", directory: \"/d\")\n\
            !5 = distinct !DISubprogram(name: \"f\", scope: !1, file: !1, line: 3)\n\
            !7 = !DILocation(line: 4, column: 9, scope: !5)\n!8 = !DILocation(line: 5, column: 9, scope: !5)\n";
        assert_eq!(place_in(merged, plain).as_deref(), Some("my/x.c:4:9"));
        assert_eq!(place_in(plain, merged).as_deref(), Some("my/x.c:5:9"));
        assert_eq!(place_in("  %1 = udiv i32 %0, 25, !dbg !7\n", plain), None);
    }
}
