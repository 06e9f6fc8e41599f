//! Every algorithm is also a program for the kernel.

use std::path::Path;

use perigee_cc_build::{kernel_object, BuildError};

#[test]
fn every_algorithm_compiles_for_the_kernel_without_a_warning() {
    let algorithms = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for algorithm in perigee_cc::algorithms() {
        let name = algorithm.name();
        match kernel_object(&algorithms.join(format!("{name}.c")), &algorithms, &folder.join(format!("{name}.o"))) {
            Ok(warnings) => assert_eq!(warnings, "", "{name}"),
            Err(error @ BuildError::Compile { .. }) => panic!("{error}"),
            Err(missing) => {
                println!("skipped: {missing}");
                return;
            }
        }
    }
}
