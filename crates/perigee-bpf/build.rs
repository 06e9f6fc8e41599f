//! Compiles every `algorithms/*.c` for the kernel and writes the table that embeds the objects; and `bpf/tcp_log.c`.
//!
//! A host without clang still builds this crate: the table then says what was missing, and so does loading.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../algorithms");
    let folder = folder.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let names = env::var_os("DEP_PERIGEE_ALGORITHMS_NAMES").expect("the build of perigee-cc gives it");
    let mut table = String::from("&[\n");
    for name in names.to_str().expect("names in ASCII").split(',') {
        let source = folder.join(format!("{name}.c"));
        let object = out.join(format!("{name}.o"));
        let built = compiled(&source, &folder, &object, &format!("{name} cannot be loaded into a kernel"));
        let _ = writeln!(table, "    ({name:?}, include_bytes!({}), {built}),", quoted(&source));
    }
    table.push(']');
    fs::write(out.join("objects.rs"), table).expect("OUT_DIR is writable");
    let log =
        compiled(Path::new("bpf/tcp_log.c"), &folder, &out.join("tcp_log.o"), "the kernel's TCP cannot be logged");
    fs::write(out.join("tcp_log.rs"), log).expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed={}", folder.display());
    println!("cargo:rerun-if-env-changed=CLANG");
}

/// The compiled object as an expression of Rust: `Ok(bytes)`, or `Err(text)` after a warning of what is lacking then.
fn compiled(source: &Path, include: &Path, object: &Path, lacking: &str) -> String {
    match perigee_cc_build::kernel_object(source, include, object) {
        Ok(_) => format!("Ok(include_bytes!({}))", quoted(object)),
        Err(error) => {
            let error = error.to_string();
            println!("cargo:warning={lacking}: {}", error.replace('\n', " "));
            format!("Err({error:?})")
        }
    }
}

/// A path as a literal of Rust.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_str().expect("cargo's folders have names in UTF-8"))
}
