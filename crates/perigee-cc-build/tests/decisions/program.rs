//! A BPF object as something to execute: its callbacks linked with what they call and read.
//!
//! What the loader does in the kernel's stead: data, maps and externals get addresses here, and calls their targets. Field accesses
//! keep the offsets of the object's own declarations, see [`crate::layout`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex, SymbolIndex};

use crate::host;
use crate::machine::{Machine, INSN};

/// `R_BPF_64_64`: the two immediates of a wide load are an address.
const ADDRESS: u32 = 1;
/// `R_BPF_64_32`: the immediate of a call is a distance.
const CALL: u32 = 10;
/// One callback, ready to execute.
pub(crate) struct Program {
    machine: Rc<Machine>,
    entry: usize,
}

impl Program {
    /// Calls it with these arguments.
    pub(crate) fn call(&self, arguments: &[u64]) -> u64 {
        self.machine.execute(self.entry, arguments).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The callbacks of an object by the slot they have in `struct tcp_congestion_ops`, counted in pointers.
pub(crate) fn link(object: &[u8], params: &[(&str, u64)], memory: &[Range<u64>]) -> BTreeMap<u64, Program> {
    let file = object::File::parse(object).expect("an ELF file");
    let linker = Linker::new(&file, params);
    let ops = file.section_by_name(".struct_ops").expect("a table of callbacks");
    let memory = memory.iter().cloned().chain(linker.memory()).collect();
    let machine = Rc::new(Machine::new(&linker.code, &host::HELPERS, memory));
    let callback = |(slot, relocation): (u64, object::Relocation)| {
        let entry = symbol(&file, relocation.target()).address() as usize / INSN;
        (slot / 8, Program { machine: Rc::clone(&machine), entry })
    };
    ops.relocations().map(callback).collect()
}

struct Linker {
    /// The section of callbacks and `.text`, one after the other.
    code: Vec<u8>,
    /// Constant data, with the parameters' values; it lives as long as the program.
    constants: &'static [u8],
    hz: &'static u32,
}

impl Linker {
    fn new(file: &object::File<'_>, params: &[(&str, u64)]) -> Self {
        let bytes = |name| file.section_by_name(name).map_or(Vec::new(), |s| s.data().expect("its bytes").to_vec());
        let mut constants = bytes(".rodata");
        for (name, value) in params {
            let symbol = file.symbol_by_name(&format!("param_{name}")).expect("a variable for each parameter");
            let at = symbol.address() as usize;
            constants[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let callbacks = bytes("struct_ops");
        let text_at = callbacks.len();
        let mut linker = Self {
            code: [callbacks, bytes(".text")].concat(),
            constants: Vec::leak(constants),
            hz: Box::leak(Box::new(host::HZ)),
        };
        for (name, base) in [("struct_ops", 0), (".text", text_at)] {
            let Some(section) = file.section_by_name(name) else { continue };
            for (offset, relocation) in section.relocations() {
                let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("an ELF relocation") };
                linker.relocate(file, base + offset as usize, r_type, relocation.target(), text_at);
            }
        }
        linker
    }

    fn relocate(&mut self, file: &object::File<'_>, at: usize, kind: u32, target: RelocationTarget, text_at: usize) {
        let symbol = symbol(file, target);
        let name = symbol.name().unwrap_or_default();
        match kind {
            ADDRESS => {
                let address = match symbol.section_index().map(|index| section_name(file, index)) {
                    None if name == "CONFIG_HZ" => &raw const *self.hz as u64,
                    None => panic!("{name} is not known here"),
                    Some(".maps") => host::STORAGE_MAP,
                    Some(".rodata") => {
                        self.constants.as_ptr() as u64 + symbol.address() + u64::from(self.immediate(at) as u32)
                    }
                    Some(section) => panic!("{name} in {section} is not known here"),
                };
                self.set_immediate(at, address as i32);
                self.set_immediate(at + INSN, (address >> 32) as i32);
            }
            CALL if symbol.is_undefined() => {
                let id = host::kernel_function(name).unwrap_or_else(|| panic!("{name} is no function of the kernel's"));
                // A call of a helper: source register 0.
                self.code[at + 1] &= 0x0f;
                self.set_immediate(at, id as i32);
            }
            CALL => {
                // The immediate counts instructions from the symbol's section, less one.
                let inside = symbol.address() as i32 / INSN as i32 + self.immediate(at) + 1;
                let target = text_at as i32 / INSN as i32 + inside;
                self.set_immediate(at, target - (at / INSN) as i32 - 1);
            }
            _ => panic!("relocation {kind} of {name} is not known here"),
        }
    }

    fn memory(&self) -> [Range<u64>; 2] {
        let (constants, hz) = (self.constants.as_ptr_range(), &raw const *self.hz as u64);
        [constants.start as u64..constants.end as u64, hz..hz + 4]
    }

    fn immediate(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.code[at + 4..at + 8].try_into().expect("four bytes"))
    }

    fn set_immediate(&mut self, at: usize, value: i32) {
        self.code[at + 4..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

fn symbol<'d, 'f>(file: &'f object::File<'d>, target: RelocationTarget) -> object::Symbol<'d, 'f> {
    let RelocationTarget::Symbol(SymbolIndex(index)) = target else { panic!("a relocation without a symbol") };
    file.symbol_by_index(SymbolIndex(index)).expect("the symbol")
}

fn section_name<'d>(file: &object::File<'d>, index: SectionIndex) -> &'d str {
    file.section_by_index(index).expect("the section").name().expect("its name")
}
