//! The memory image of a shared library, read from its file; none of its code is executed.

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind};
use perigee_cc::Image;

/// An ELF shared library.
pub(crate) struct Elf<'a> {
    file: object::File<'a>,
    /// Addresses and values that the loader would store.
    stored: BTreeMap<u64, u64>,
}

impl<'a> Elf<'a> {
    /// The library of these bytes; `None`: they are none.
    pub(crate) fn new(library: &'a [u8]) -> Option<Self> {
        let file = object::File::parse(library).ok()?;
        let mut stored = BTreeMap::new();
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = file.dynamic_symbol_table()?.symbol_by_index(index).ok()?;
                    if symbol.is_undefined() {
                        OUTSIDE
                    } else {
                        symbol.address()
                    }
                }
                _ => 0,
            };
            if !relocation.has_implicit_addend() {
                stored.insert(address, target.wrapping_add_signed(relocation.addend()));
            }
        }
        Some(Self { file, stored })
    }
}

impl Image for Elf<'_> {
    fn symbol(&self, name: &str) -> Option<u64> {
        let mut symbols = self.file.dynamic_symbols();
        symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name)).map(|symbol| symbol.address())
    }

    fn bytes(&self, address: u64, count: usize) -> Option<&[u8]> {
        let within = |section: &object::Section<'_, '_>| {
            section.address() <= address && address - section.address() < section.size() && section.address() > 0
        };
        let section = self.file.sections().find(within)?;
        if section.kind() == SectionKind::UninitializedData {
            return ZEROS.get(..count);
        }
        section.data_range(address, count as u64).ok()?
    }

    fn pointer(&self, address: u64) -> Option<u64> {
        let in_place = || Some(u64::from_ne_bytes(self.bytes(address, 8)?.try_into().ok()?));
        self.stored.get(&address).copied().or_else(in_place)
    }
}

/// The address of what another library has.
const OUTSIDE: u64 = u64::MAX;
/// Longer than any number or name that is read.
static ZEROS: [u8; 64] = [0; 64];
