//! Every algorithm is also a program for the kernel.

use std::path::Path;
use std::process::Command;

/// The options the kernel build uses; the natively hosted build has the same warnings.
const OPTIONS: [&str; 9] =
    ["-target", "bpf", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];

/// Runs clang on a C file; what it said where it failed.
fn compile(source: &Path, include: &Path, object: &Path) -> Result<(), String> {
    let output = Command::new("clang")
        .args(OPTIONS)
        .arg("-I")
        .arg(include)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("clang does not start: {e}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn every_algorithm_compiles_for_the_kernel() {
    let algorithms = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let probe = folder.join("probe.c");
    std::fs::write(&probe, "#include \"tcp.h\"\n").unwrap();
    if let Err(said) = compile(&probe, &algorithms, &folder.join("probe.o")) {
        let headers = Path::new("/usr/include/bpf/bpf_helpers.h").exists();
        let usable = Command::new("clang").arg("--print-targets").output();
        let has_bpf = usable.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("bpf"));
        assert!(!(headers && has_bpf), "tcp.h does not compile for BPF:\n{said}");
        println!("skipped: needs clang with the bpf target and the headers of libbpf\n{said}");
        return;
    }
    for algorithm in perigee_cc::algorithms() {
        let name = algorithm.name();
        let source = algorithms.join(format!("{name}.c"));
        if let Err(said) = compile(&source, &algorithms, &folder.join(format!("{name}.o"))) {
            panic!("{name} does not compile for BPF:\n{said}");
        }
    }
}
