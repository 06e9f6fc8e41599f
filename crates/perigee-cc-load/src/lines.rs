//! Lines of source code for addresses in a compiled library, by its debug information (DWARF).

use std::path::PathBuf;

use addr2line::gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use addr2line::Context;
use object::{Object, ObjectSection};

/// A line of source code, and the function that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file, as the compiler was given it, below the folder in which it ran.
    pub file: PathBuf,
    /// The line, from 1.
    pub number: u32,
    /// The function's name in C; empty where it is not known.
    pub function: String,
}

/// The lines of an address within a library: that of the instruction, and where its function was inlined those of the calls.
/// Empty where the library has no debug information of it.
pub fn lines_of(library: &[u8], address: u64) -> Vec<Line> {
    found(library, address).unwrap_or_default()
}

fn found(library: &[u8], address: u64) -> Option<Vec<Line>> {
    let file = object::File::parse(library).ok()?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or_default();
        Ok::<_, addr2line::gimli::Error>(EndianSlice::new(data, endian))
    };
    let context = Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned())).unwrap_or_default();
        let Some(location) = frame.location else { continue };
        let (Some(file), Some(number)) = (location.file, location.line) else { continue };
        lines.push(Line { file: file.into(), number, function });
    }
    Some(lines)
}
