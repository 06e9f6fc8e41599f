//! The algorithms of `algorithms/` as objects for the kernel, made when this crate was built.

use sha2::{Digest, Sha256};

/// One algorithm as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The relocatable BPF object, or what was missing when this crate was built.
    pub object: Result<&'static [u8], &'static str>,
    source: &'static [u8],
}

impl BuiltIn {
    /// The algorithm of this name.
    pub fn find(name: &str) -> Option<Self> {
        OBJECTS.iter().find(|(known, ..)| *known == name).map(|&(_, source, object)| Self { object, source })
    }

    /// SHA-256 of the C file it was compiled from, in hexadecimal.
    pub fn source_sha256(&self) -> String {
        sha256(self.source)
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

type Entry = (&'static str, &'static [u8], Result<&'static [u8], &'static str>);

static OBJECTS: &[Entry] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_of_the_simulator_is_there_for_the_kernel() {
        let missing: Vec<_> = perigee_cc::algorithms()
            .iter()
            .map(perigee_cc::Algorithm::name)
            .filter(|name| BuiltIn::find(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0]);
        assert!(BuiltIn::find("rneo").is_none());
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
