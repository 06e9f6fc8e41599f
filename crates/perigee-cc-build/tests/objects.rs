//! The installed compilers build both objects of a file, and report an author's mistake with its line.

use std::path::{Path, PathBuf};

use perigee_cc_build::{kernel_object, shared_library, BuildError};

fn algorithms() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms")
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The machine of an ELF file.
fn machine(object: &Path) -> u16 {
    let bytes = std::fs::read(object).expect("the object is there");
    assert_eq!(&bytes[..4], b"\x7fELF");
    u16::from_le_bytes([bytes[18], bytes[19]])
}

#[test]
fn a_file_becomes_a_shared_library_without_a_warning() {
    let out = scratch("reno.so");
    assert_eq!(shared_library(&algorithms().join("reno.c"), &algorithms(), &out, &mut || true).unwrap(), "");
    assert!(String::from_utf8_lossy(&std::fs::read(out).unwrap()).contains("perigee_cc_reno"));
}

#[test]
fn a_file_becomes_an_object_for_the_kernel_without_a_warning() {
    const EM_BPF: u16 = 247;
    let out = scratch("reno.o");
    match kernel_object(&algorithms().join("reno.c"), &algorithms(), &out) {
        Err(
            missing
            @ (BuildError::CompilerMissing { .. } | BuildError::HeadersMissing | BuildError::NoBpfTarget { .. }),
        ) => {
            println!("skipped: {missing}");
        }
        done => {
            assert_eq!(done.unwrap(), "");
            assert_eq!(machine(&out), EM_BPF);
        }
    }
}

#[test]
fn an_error_shows_the_line_and_column_of_the_author() {
    let source = scratch("wrong.c");
    std::fs::write(&source, "#include \"tcp.h\"\n\nint f(void) { return colour; }\n").unwrap();
    let error = shared_library(&source, &algorithms(), &scratch("wrong.so"), &mut || true).unwrap_err();
    assert!(matches!(error, BuildError::Compile { .. }));
    let said = error.to_string();
    assert!(said.contains(&format!("{}:3:22: error: ", source.display())) && said.contains("colour"), "{said}");
    assert!(!scratch("wrong.so").exists());
}

#[test]
fn a_warning_is_returned_and_is_no_error() {
    let source = scratch("doubtful.c");
    std::fs::write(&source, "#include \"tcp.h\"\nint f(int unused) { int other; return unused; }\n").unwrap();
    let said = shared_library(&source, &algorithms(), &scratch("doubtful.so"), &mut || true).unwrap();
    assert!(said.contains("unused variable"), "{said}");
}
