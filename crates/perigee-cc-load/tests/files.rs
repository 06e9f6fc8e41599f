//! Authors' files: their names, the decisions of their algorithms, and the errors of wrong files.

use std::fs;
use std::path::{Path, PathBuf};

use perigee_cc::{Algorithm, ProgressNote, Selected, Socket};
use perigee_cc_load::{check, lines_of, CheckReport, ForKernel, Loader};
use tempfile::TempDir;

/// An algorithm that keeps a settable share of the window.
const KEEP: &str = r#"// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "tcp.h"

#define PARAMETERS(P) P(keep, "1/1024", 512, 1, 1023, "window kept on a loss")
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, keep_ssthresh, struct sock *sk)
{
	return max32((u32)((u64)tcp_sk(sk)->snd_cwnd * param(sk, keep) >> 10), 2);
}
CC_CALLBACK(void, keep_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}
CC_CALLBACK(u32, keep_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(keep, "Keeps a share of the window", PARAMETERS,
	.ssthresh = OP(keep_ssthresh),
	.cong_avoid = OP(keep_cong_avoid),
	.undo_cwnd = OP(keep_undo_cwnd))
"#;

fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms")
}

fn note() -> &'static ProgressNote {
    Box::leak(Box::default())
}

/// Whether both have the same title, parameters and sizes, whatever their names.
fn alike(one: &Algorithm, other: &Algorithm) -> bool {
    let about = |algorithm: &Algorithm| {
        let sizes = (algorithm.state_bytes(), algorithm.storage_bytes());
        let watched = algorithm.watched().to_vec();
        (algorithm.title(), algorithm.params().to_vec(), sizes, watched, algorithm.has_cong_control())
    };
    about(one) == about(other)
}

/// A folder of files, and a loader.
struct Desk {
    folder: TempDir,
    loader: Loader,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), loader: Loader::new(headers()) }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("the folder is ours");
        path
    }

    fn error(&mut self, text: &str) -> String {
        let path = self.write("mycc.c", text);
        self.loader.load(&path, "./mycc.c", &mut || true).expect_err("this file is wrong").to_string()
    }
}

#[test]
fn an_authors_algorithm_runs_as_written_with_its_parameters_as_set() {
    let mut desk = Desk::new();
    let path = desk.write("keep.c", KEEP);
    let described = desk.loader.load(&path, "keep.c", &mut || true).unwrap();
    assert_eq!((described.name(), described.title()), ("keep", "Keeps a share of the window"));
    assert!(!described.is_loaded(), "what is only described cannot be called");
    // The test's own files are trusted: they may run in its process.
    let mut confined = Loader::confined(desk.loader.compiled(), note());
    let algorithm = confined.load(&path, "keep.c", &mut || true).unwrap();
    assert!(algorithm.is_loaded() && alike(algorithm, described));
    assert_eq!(format!("{algorithm:?}"), format!("{described:?}"), "plans that have it are the same");
    let kept = |settings: &[(&str, &str)]| {
        let mut socket = Socket::new(&Selected::of(algorithm, settings).unwrap(), 1448, 10, 1);
        socket.init();
        socket.snd_cwnd = 100;
        socket.ssthresh()
    };
    assert_eq!((kept(&[]), kept(&[("keep", "75 %")])), (50, 75));
    assert_eq!(desk.loader.warnings(), "");
}

#[test]
fn a_file_is_one_algorithm_however_often_it_is_named() {
    let mut desk = Desk::new();
    let path = desk.write("keep.c", KEEP);
    let first: *const _ = desk.loader.load(&path, "keep.c", &mut || true).unwrap();
    let other = desk.folder.path().join(".").join("keep.c");
    assert!(std::ptr::eq(first, desk.loader.load(&other, "./keep.c", &mut || true).unwrap()));
}

#[test]
fn a_name_in_use_is_followed_by_the_path() {
    let mut desk = Desk::new();
    let (one, two) = (desk.write("one.c", KEEP), desk.write("two.c", KEEP));
    let cubic = desk.write("cubic.c", &KEEP.replace("CC_REGISTER(keep", "CC_REGISTER(cubic"));
    let mut name = |path: &Path, shown: &str| desk.loader.load(path, shown, &mut || true).unwrap().name().to_owned();
    assert_eq!(name(&one, "one.c"), "keep");
    assert_eq!(name(&two, "./two.c"), "keep (./two.c)");
    assert_eq!(name(&cubic, "./cubic.c"), "cubic (./cubic.c)");
}

#[test]
fn the_printed_form_changes_with_the_text_and_with_included_files() {
    let desk = Desk::new();
    let path = desk.write("keep.c", &KEEP.replace("\"tcp.h\"", "\"tcp.h\"\n#include \"part.h\""));
    let print = |text: &str| {
        desk.write("part.h", text);
        format!("{:?}", Loader::new(headers()).load(&path, "keep.c", &mut || true).unwrap())
    };
    let (plain, again, other) = (print(""), print(""), print("#define max32(a, b) (a)\n"));
    assert_eq!(plain, again, "compiled twice, the same");
    assert_ne!(plain, other);
    fs::write(&path, fs::read_to_string(&path).unwrap() + "// a remark\n").unwrap();
    assert_ne!(plain, print(""));
}

#[test]
fn a_mistake_is_shown_at_the_authors_line() {
    let error = Desk::new().error(&KEEP.replace("tcp_sk(sk)->snd_cwnd", "tcp_sk(sk)->snd_cwmd"));
    assert!(error.starts_with("does not compile; correct what the compiler says:\n"), "{error}");
    assert!(error.contains("mycc.c:9:") && error.contains("snd_cwmd"), "{error}");
}

#[test]
fn an_undefined_function_is_named() {
    let error =
        Desk::new().error(&KEEP.replace("return tcp_reno_undo_cwnd(sk)", "extern u32 undo(void); return undo()"));
    assert!(error.starts_with("does not compile") && error.contains("undo"), "{error}");
}

#[test]
fn two_registrations_in_one_file_are_refused() {
    let second = "CC_REGISTER(other, \"Other\", PARAMETERS, .ssthresh = OP(keep_ssthresh))\n";
    let error = Desk::new().error(&(KEEP.to_owned() + second));
    assert!(error.contains("mycc.c:24:") && error.contains("only_one_CC_REGISTER_per_file"), "{error}");
}

#[test]
fn a_name_that_the_kernel_would_cut_is_refused() {
    let mut desk = Desk::new();
    let error = desk.error(&KEEP.replace("CC_REGISTER(keep", "CC_REGISTER(keep567890abcdef"));
    assert!(error.contains("mycc.c:20:") && error.contains("at most 15 characters"), "{error}");
    let path = desk.write("longest.c", &KEEP.replace("CC_REGISTER(keep", "CC_REGISTER(keep567890abcde"));
    assert_eq!(desk.loader.load(&path, "longest.c", &mut || true).unwrap().name(), "keep567890abcde");
}

#[test]
fn a_file_without_an_algorithm_is_refused() {
    let registered = KEEP.find("CC_REGISTER(keep").expect("it is there");
    for text in [&KEEP[..registered], "int add(int a, int b) { return a + b; }\n", ""] {
        assert_eq!(
            Desk::new().error(text),
            "cannot be run: it registers no algorithm; end it with CC_REGISTER, or begin with what `perigee cc new` writes"
        );
    }
}

#[test]
fn an_algorithm_that_linux_would_refuse_is_refused() {
    let error = Desk::new().error(&KEEP.replace("\t.cong_avoid = OP(keep_cong_avoid),\n", ""));
    assert_eq!(error, "cannot be run: `keep` has no `cong_avoid or cong_control`; add it to CC_REGISTER");
    let error = Desk::new().error(&KEEP.replace("512, 1, 1023", "512, 1, 511"));
    assert_eq!(
        error,
        "cannot be run: the default of `keep` is not between its bounds; correct its line in the list of parameters"
    );
}

/// [`KEEP`] with these declarations, and this statement on a loss.
fn keep_with(declarations: &str, statement: &str) -> String {
    let top = "CC_PARAMETERS(PARAMETERS)\n";
    let text = KEEP.replace(top, &format!("{top}{declarations}\n"));
    text.replace("\treturn max32(", &format!("\t{statement}\n\treturn max32("))
}

#[test]
fn state_outside_of_the_socket_is_refused() {
    for (declared, used) in [
        ("u32 losses;", "losses++;"),
        ("static u32 losses = 3;", "tcp_sk(sk)->lost += losses++;"),
        ("static _Thread_local u32 losses;", "tcp_sk(sk)->lost += losses++;"),
        ("u32 losses[4];", "losses[1]++;"),
        ("", "static u32 losses; tcp_sk(sk)->lost += losses++;"),
    ] {
        let error = Desk::new().error(&keep_with(declared, used));
        let expected = "keeps state in `losses`, which all flows of all runs would share; keep it in the socket";
        assert!(error.starts_with(expected), "{declared} {used}: {error}");
    }
}

#[test]
fn constant_tables_are_no_state() {
    let tables = "CC_TABLE u32 numbers[2] = { 7, 9 };\nCC_TABLE char *const words[2] = { \"a\", \"b\" };";
    let used = "tcp_sk(sk)->lost += numbers[tcp_sk(sk)->delivered & 1] + (u32)words[tcp_sk(sk)->delivered & 1][0];";
    let mut desk = Desk::new();
    let path = desk.write("keep.c", &keep_with(tables, used));
    desk.loader.load(&path, "keep.c", &mut || true).unwrap();
    assert_eq!(desk.loader.warnings(), "");
}

#[test]
fn built_in_algorithms_load_as_an_authors_file() {
    assert_eq!(load_built_in(|name| ["bbr", "cubic", "reno"].contains(&name)), 3);
}

#[test]
#[ignore = "long: make torture"]
fn every_built_in_algorithm_loads_as_an_authors_file() {
    assert_eq!(load_built_in(|_| true), perigee_cc::algorithms().len());
}

/// Loads the built-in algorithms of these names; how many.
fn load_built_in(is_chosen: impl Fn(&str) -> bool) -> usize {
    let mut loader = Loader::new(headers());
    let files = fs::read_dir(headers()).expect("algorithms").map(|entry| entry.expect("an entry").path());
    let mut seen = 0;
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "c")) {
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(&is_chosen) {
            continue;
        }
        let algorithm =
            loader.load(&path, "here", &mut || true).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        assert_eq!(algorithm.name(), format!("{name} (here)"));
        // The description read from the library equals that of the built-in algorithm of the same file.
        assert!(alike(algorithm, perigee_cc::find(name).expect("it is built in")), "{name}");
        seen += 1;
    }
    assert_eq!(loader.warnings(), "");
    seen
}

#[test]
fn a_file_compiled_with_the_header_of_another_version_is_refused() {
    let mut desk = Desk::new();
    let header = fs::read_to_string(headers().join("tcp.h")).expect("tcp.h is there");
    let at = header.find("#define CC_LAYOUT 0x").expect("tcp.h says its layout") + "#define CC_LAYOUT 0x".len();
    desk.write("tcp.h", &(header[..at].to_owned() + "0" + &header[at + 1..]));
    let error = desk.error(KEEP);
    assert!(error.starts_with("cannot be run: it was compiled with another version's tcp.h"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut desk = Desk::new();
    let error = desk.loader.load(Path::new("no/such.c"), "./such.c", &mut || true).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot be read: No such file") && error.ends_with("; check the path `no/such.c`"),
        "{error}"
    );
}

fn checked(text: &str) -> CheckReport {
    let desk = Desk::new();
    check(&desk.write("mycc.c", text), &headers(), &mut || true).expect("it compiles for the simulator")
}

#[test]
fn a_right_file_passes_its_check() {
    let found = checked(KEEP);
    assert_eq!((&*found.warnings, found.compiled.len()), ("", 1));
    assert!(!matches!(found.kernel, ForKernel::Fails(_)));
    if let ForKernel::Unknown(why) = found.kernel {
        println!("skipped: {why}");
    }
}

#[test]
fn constructors_are_not_executed_until_the_file_is_loaded_into_a_process_of_its_own() {
    let mut desk = Desk::new();
    let mark = desk.folder.path().join("mark");
    let constructor = format!(
        "extern int creat(const char *, unsigned);\n\
         __attribute__((constructor)) static void on_load(void) {{ creat(\"{}\", 0600); }}",
        mark.display()
    );
    let path = desk.write("keep.c", &keep_with(&constructor, ""));
    desk.loader.load(&path, "keep.c", &mut || true).unwrap();
    check(&path, &headers(), &mut || true).expect("it compiles for the simulator");
    assert!(!mark.exists());
    Loader::confined(desk.loader.compiled(), note()).load(&path, "keep.c", &mut || true).unwrap();
    assert!(mark.exists(), "or else this test proves nothing");
}

#[test]
fn a_table_that_points_nowhere_is_refused() {
    let registration = "const struct cc_algorithm perigee_cc_keep = {\n\
        .ops = { .name = \"keep\", .ssthresh = keep_ssthresh, .cong_avoid = keep_cong_avoid, .undo_cwnd = keep_undo_cwnd },\n\
        .title = \"t\", .params = (const struct cc_param *)4096, .param_count = COUNT,\n\
        .state_bytes = &cc_state_bytes, .storage_bytes = &cc_storage_bytes, .watch = &cc_watch };\nCC_EXPORT(keep)\n";
    let begin = &KEEP[..KEEP.find("CC_REGISTER").expect("it is there")];
    for count in ["1", "25", "0xffffffff"] {
        let error = Desk::new().error(&format!("{begin}{}", registration.replace("COUNT", count)));
        assert_eq!(
            error,
            "cannot be run: its list of parameters cannot be read; register it with CC_REGISTER, its parameters with \
             CC_PARAMETERS"
        );
    }
}

/// [`KEEP`] with a list of watched values.
fn keep_watched(list: &str) -> String {
    keep_with(&format!("#define WATCHED(W) {list}\nCC_WATCH(WATCHED, const struct tcp_sock *tp = tcp_sk(sk));"), "")
}

#[test]
fn watched_values_are_described_without_loading_and_read_when_loaded() {
    let mut desk = Desk::new();
    let list = "W(state, \"grow|hold\", tp->snd_cwnd > 20, \"phase\") W(half_packets, \"packets\", tp->snd_cwnd / 2, \"half\") \
                W(none_us, \"us\", CC_EMPTY, \"nothing\")";
    let path = desk.write("keep.c", &keep_watched(list));
    let described = desk.loader.load(&path, "keep.c", &mut || true).unwrap();
    let about: Vec<_> = described.watched().iter().map(|value| (value.name, value.unit, value.doc)).collect();
    let expected = [("state", "grow|hold", "phase"), ("half_packets", "packets", "half"), ("none_us", "us", "nothing")];
    assert_eq!(about, expected);
    assert_eq!(described.watched()[0].choices, ["grow", "hold"]);
    let loaded = Loader::confined(desk.loader.compiled(), note()).load(&path, "keep.c", &mut || true).unwrap();
    assert!(alike(described, loaded));
    let mut socket = Socket::new(&Selected::with_defaults(loaded), 1448, 30, 1);
    let mut values = Vec::new();
    socket.watch(&mut values);
    assert_eq!(values, [1, 15, perigee_cc::EMPTY]);
    let report = check(&path, &headers(), &mut || true).expect("it compiles for the simulator");
    assert!(matches!(report.kernel, ForKernel::Compiles | ForKernel::Unknown(_)), "{:?}", report.kernel);
}

#[test]
fn a_watched_value_with_the_name_of_another_column_is_refused() {
    for (list, name) in [
        ("W(cwnd_packets, \"packets\", tp->snd_cwnd, \"window\")", "cwnd_packets"),
        ("W(x, \"1\", 1, \"one\") W(x, \"1\", 2, \"two\")", "x"),
    ] {
        let error = Desk::new().error(&keep_watched(list));
        let expected = format!(
            "cannot be run: the watched value `{name}` is a column already; rename it in the list of watched values"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn files_that_are_no_source_text_are_not_read() {
    let mut desk = Desk::new();
    let long = desk.folder.path().join("long.c");
    fs::File::create(&long).unwrap().set_len(5 << 30).unwrap();
    let error = desk.loader.load(&long, "long.c", &mut || true).unwrap_err().to_string();
    assert_eq!(error, "is larger than 16 MiB; name a C file");
    for path in [Path::new("/dev/zero"), Path::new("/")] {
        let error = desk.loader.load(path, "x.c", &mut || true).unwrap_err().to_string();
        assert_eq!(error, "is no regular file; name a C file");
    }
}

#[test]
fn a_field_of_the_simulator_alone_does_not_compile_for_the_kernel() {
    match checked(&KEEP.replace("tcp_sk(sk)->snd_cwnd", "tcp_sk(sk)->rtt_min_us")).kernel {
        ForKernel::Fails(said) => assert!(said.contains("mycc.c:9:") && said.contains("rtt_min_us"), "{said}"),
        ForKernel::Unknown(why) => println!("skipped: {why}"),
        ForKernel::Compiles => panic!("the kernel has no such field"),
    }
}

#[test]
fn a_field_of_the_simulator_alone_gets_a_warning_that_names_the_common_one() {
    let mut desk = Desk::new();
    let path = desk.write("mycc.c", &KEEP.replace("tcp_sk(sk)->snd_cwnd", "tcp_sk(sk)->rtt_min_us"));
    desk.loader.load(&path, "mycc.c", &mut || true).expect("it compiles");
    let said = desk.loader.warnings();
    assert!(said.contains("mycc.c:9:") && said.contains("tcp_min_rtt(tp) is in both"), "{said}");
    match checked(&KEEP.replace("tcp_sk(sk)->snd_cwnd", "tcp_sk(sk)->rtt_min_us")).kernel {
        ForKernel::Fails(said) => assert!(said.contains("hint: for `rtt_min_us`"), "{said}"),
        ForKernel::Unknown(why) => println!("skipped: {why}"),
        ForKernel::Compiles => panic!("the kernel has no such field"),
    }
}

#[test]
fn floating_point_gets_a_warning_with_its_line() {
    let mut desk = Desk::new();
    let half = KEEP.replace("(u64)tcp_sk(sk)->snd_cwnd * param(sk, keep) >> 10", "(tcp_sk(sk)->snd_cwnd * 0.5)");
    let path = desk.write("mycc.c", &half);
    desk.loader.load(&path, "mycc.c", &mut || true).expect("the simulator has it");
    let said = desk.loader.warnings();
    assert!(said.contains("mycc.c:9: warning: floating point"), "{said}");
}

#[test]
fn an_address_resolves_to_its_line_and_the_lines_it_was_inlined_into() {
    let mut desk = Desk::new();
    let path = desk.write("keep.c", KEEP);
    desk.loader.load(&path, "keep.c", &mut || true).expect("it compiles");
    let library = desk.loader.compiled().remove(0).library;
    let real = path.canonicalize().expect("it is there");
    let all = (0..library.len() as u64).map(|address| lines_of(&library, address));
    let lines: Vec<_> = all.flatten().filter(|line| line.file == real).collect();
    assert!(lines.iter().any(|line| line.number == 9 && line.function == "keep_ssthresh"), "{lines:?}");
    // A function inlined from tcp.h resolves to the author's line as well.
    assert!(lines.iter().any(|line| line.number == 13 && line.function == "keep_cong_avoid"), "{lines:?}");
    assert_eq!(lines_of(b"no library", 16), []);
}

#[test]
fn only_the_users_own_folders_of_ended_processes_are_removed() {
    use std::os::unix::fs::PermissionsExt as _;
    let ours = perigee_cc_load::scratch().expect("a folder");
    assert_eq!(fs::metadata(ours.path()).expect("ours").permissions().mode() & 0o777, 0o700);
    let name = ours.path().file_name().expect("a name").to_string_lossy().into_owned();
    let (pid, parts) = (std::process::id(), name.split('-').collect::<Vec<_>>());
    let [_, _, namespace, maker, start, _] = parts[..] else { panic!("{name}") };
    assert_eq!(maker, pid.to_string());
    let other_start = start.parse::<u64>().expect("a number") + 1;
    let named = |kind: &str, rest: String| std::env::temp_dir().join(format!("perigee-{kind}-{rest}-t{pid}"));
    // No process has number 0, so the first folder has no owner; the number of the second has been given to a later process.
    let left = [named("cc", format!("{namespace}-0-1")), named("fit", format!("{namespace}-{pid}-{other_start}"))];
    // A folder of another namespace, one of another user, a symbolic link to a folder, and a file.
    let foreign = named("cc", "1-0-1".into());
    let other_users = named("fit", format!("{namespace}-0-2"));
    let link = named("cc", format!("{namespace}-0-3"));
    let file = named("cc", format!("{namespace}-0-4"));
    for folder in left.iter().chain([&foreign, &other_users]) {
        std::fs::create_dir(folder).expect("a folder");
    }
    let is_root = std::os::unix::fs::chown(&other_users, Some(65_534), None).is_ok();
    std::os::unix::fs::symlink(&foreign, &link).expect("a link");
    std::fs::write(&file, "").expect("a file");
    let removed = perigee_cc_load::sweep().expect("a folder of temporary files");
    assert!(left.iter().all(|folder| removed.contains(folder) && !folder.exists()), "{removed:?}");
    assert!(ours.path().exists() && foreign.exists() && link.is_symlink() && file.exists());
    assert_eq!(other_users.exists(), is_root, "a folder of another user");
    std::fs::remove_file(link).expect("ours");
    std::fs::remove_file(file).expect("ours");
    std::fs::remove_dir(foreign).expect("ours");
    let _ = std::fs::remove_dir(other_users);
}

#[test]
fn a_function_of_the_host_is_warned_of_and_is_not_for_the_kernel() {
    let desk = Desk::new();
    let text = KEEP.replace("CC_PARAMETERS(PARAMETERS)\n", "CC_PARAMETERS(PARAMETERS)\nextern long time(long *);\n");
    let reads = text.replace("\ttcp_reno_cong_avoid(", "\tif (time(0) & 1)\n\t\ttcp_reno_cong_avoid(");
    let report = |text: &str| check(&desk.write("keep.c", text), &headers(), &mut || true).expect("it compiles");
    assert_eq!(report(&text).warnings, "");
    let CheckReport { warnings, kernel, .. } = report(&reads);
    assert!(warnings.contains("keep.c:14: warning: it uses `time` of this host"), "{warnings}");
    if let ForKernel::Unknown(why) = kernel {
        println!("skipped: {why}");
        return;
    }
    assert!(matches!(kernel, ForKernel::Fails(said) if said.contains("keep.c:14: error: it uses `time` of this host")));
}
