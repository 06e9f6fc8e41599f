//! An interpreter of the BPF instruction set (RFC 9669), as far as clang 14 uses it for `-mcpu=v1` to `v3`.
//!
//! Immediates are sign-extended in 64-bit operations and comparisons, quotients by zero are 0 and remainders by zero the dividend, as
//! in the kernel. Every access to memory is checked.

use std::ops::Range;

/// Size of an instruction.
pub(crate) const INSN: usize = 8;
/// Stack of one function.
const FRAME: usize = 512;
/// Nested calls, as in the kernel.
const DEPTH: usize = 8;
/// Instructions after which a loop counts as endless; callbacks take far fewer.
const MOST_STEPS: u64 = 10_000_000;

/// A function that programs call by number, with five arguments.
pub(crate) type Helper = fn(u64, u64, u64, u64, u64) -> u64;

/// Code and the memory that it may access.
pub(crate) struct Machine {
    code: Vec<Insn>,
    helpers: Vec<(u32, Helper)>,
    memory: Vec<Range<u64>>,
}

#[derive(Clone, Copy)]
struct Insn {
    opcode: u8,
    dst: usize,
    src: usize,
    offset: i16,
    imm: i32,
}

/// The state that a call restores on return: the instruction, and registers 6 to 9.
type Return = (usize, [u64; 4]);

impl Machine {
    pub(crate) fn new(code: &[u8], helpers: &[(u32, Helper)], memory: Vec<Range<u64>>) -> Self {
        let decode = |bytes: &[u8]| Insn {
            opcode: bytes[0],
            dst: usize::from(bytes[1] & 15),
            src: usize::from(bytes[1] >> 4),
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        };
        Self { code: code.chunks_exact(INSN).map(decode).collect(), helpers: helpers.to_vec(), memory }
    }

    /// Runs from the instruction `entry`, with `context` in register 1, until it returns.
    pub(crate) fn execute(&self, entry: usize, context: &[u64]) -> Result<u64, String> {
        let stack = [0u64; FRAME * DEPTH / 8];
        let own = [span(&stack), span(context)];
        let mut r = [0u64; 11];
        (r[1], r[10]) = (own[1].start, own[0].end);
        let mut returns: Vec<Return> = Vec::with_capacity(DEPTH);
        let mut pc = entry;
        for _ in 0..MOST_STEPS {
            let insn = *self.code.get(pc).ok_or_else(|| format!("there is no instruction {pc}"))?;
            let wrong = |what: &str| format!("instruction {pc} ({:#04x}): {what}", insn.opcode);
            let operand = if insn.opcode & 8 == 0 { i64::from(insn.imm) as u64 } else { r[insn.src] };
            let mut next = pc + 1;
            match insn.opcode & 7 {
                0 if insn.opcode == 0x18 => {
                    let high = self.code.get(next).ok_or_else(|| wrong("half a wide load"))?.imm;
                    r[insn.dst] = u64::from(insn.imm as u32) | u64::from(high as u32) << 32;
                    next += 1;
                }
                1..=3 if insn.opcode >> 5 == 3 => self.access(insn, &mut r, &own).map_err(|what| wrong(&what))?,
                4 => {
                    let answer = alu32(insn.opcode >> 4, r[insn.dst] as u32, operand as u32);
                    r[insn.dst] = u64::from(answer.ok_or_else(|| wrong("no such operation"))?);
                }
                7 => {
                    let answer = alu64(insn.opcode >> 4, r[insn.dst], operand);
                    r[insn.dst] = answer.ok_or_else(|| wrong("no such operation"))?;
                }
                5 if insn.opcode == 0x85 && insn.src == 0 => {
                    let known = self.helpers.iter().find(|(id, _)| *id == insn.imm as u32);
                    let (_, helper) = known.ok_or_else(|| wrong(&format!("no helper {}", insn.imm)))?;
                    r[0] = helper(r[1], r[2], r[3], r[4], r[5]);
                }
                5 if insn.opcode == 0x85 && insn.src == 1 => {
                    if returns.len() + 1 == DEPTH {
                        return Err(wrong("too many calls"));
                    }
                    returns.push((next, [r[6], r[7], r[8], r[9]]));
                    r[10] -= FRAME as u64;
                    next = next.wrapping_add_signed(insn.imm as isize);
                }
                5 if insn.opcode == 0x95 => {
                    let Some((back, saved)) = returns.pop() else { return Ok(r[0]) };
                    r[6..10].copy_from_slice(&saved);
                    r[10] += FRAME as u64;
                    next = back;
                }
                class @ 5..=6 => {
                    // Sign-extended, so that signed and unsigned 32-bit comparisons equal those of 64 bits.
                    let wide = |value: u64| if class == 5 { value } else { i64::from(value as i32) as u64 };
                    let (a, b) = (wide(r[insn.dst]), wide(operand));
                    if compare(insn.opcode >> 4, a, b).ok_or_else(|| wrong("no such jump"))? {
                        next = next.wrapping_add_signed(isize::from(insn.offset));
                    }
                }
                _ => return Err(wrong("not known here")),
            }
            pc = next;
        }
        Err(String::from("the program does not end"))
    }

    /// A load or a store, within memory that is the program's.
    fn access(&self, insn: Insn, r: &mut [u64; 11], own: &[Range<u64>]) -> Result<(), String> {
        let base = if insn.opcode & 7 == 1 { r[insn.src] } else { r[insn.dst] };
        let address = base.wrapping_add(i64::from(insn.offset) as u64);
        let bytes = [4, 2, 1, 8][usize::from(insn.opcode >> 3 & 3)];
        let end = address.saturating_add(bytes);
        let inside = |range: &Range<u64>| range.start <= address && end <= range.end;
        if !own.iter().chain(&self.memory).any(inside) {
            return Err(format!("{address:#x} is not the program's"));
        }
        match insn.opcode & 7 {
            // SAFETY: the address lies in memory that is the program's.
            1 => r[insn.dst] = unsafe { load(address, bytes) },
            // SAFETY: as above.
            2 => unsafe { store(address, bytes, i64::from(insn.imm) as u64) },
            // SAFETY: as above.
            _ => unsafe { store(address, bytes, r[insn.src]) },
        }
        Ok(())
    }
}

fn span(words: &[u64]) -> Range<u64> {
    let range = words.as_ptr_range();
    range.start as u64..range.end as u64
}

/// # Safety
///
/// `bytes` bytes from `address` on can be read.
unsafe fn load(address: u64, bytes: u64) -> u64 {
    let at = address as *const u8;
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => u64::from(at.read()),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// # Safety
///
/// `bytes` bytes from `address` on can be written.
unsafe fn store(address: u64, bytes: u64, value: u64) {
    let at = address as *mut u8;
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => at.write(value as u8),
            2 => at.cast::<u16>().write_unaligned(value as u16),
            4 => at.cast::<u32>().write_unaligned(value as u32),
            _ => at.cast::<u64>().write_unaligned(value),
        }
    }
}

fn alu64(operation: u8, a: u64, b: u64) -> Option<u64> {
    Some(match operation {
        0x0 => a.wrapping_add(b),
        0x1 => a.wrapping_sub(b),
        0x2 => a.wrapping_mul(b),
        0x3 => a.checked_div(b).unwrap_or(0),
        0x4 => a | b,
        0x5 => a & b,
        0x6 => a.wrapping_shl(b as u32),
        0x7 => a.wrapping_shr(b as u32),
        0x8 => a.wrapping_neg(),
        0x9 => a.checked_rem(b).unwrap_or(a),
        0xa => a ^ b,
        0xb => b,
        0xc => (a as i64).wrapping_shr(b as u32) as u64,
        _ => return None,
    })
}

fn alu32(operation: u8, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0x0 => a.wrapping_add(b),
        0x1 => a.wrapping_sub(b),
        0x2 => a.wrapping_mul(b),
        0x3 => a.checked_div(b).unwrap_or(0),
        0x4 => a | b,
        0x5 => a & b,
        0x6 => a.wrapping_shl(b),
        0x7 => a.wrapping_shr(b),
        0x8 => a.wrapping_neg(),
        0x9 => a.checked_rem(b).unwrap_or(a),
        0xa => a ^ b,
        0xb => b,
        0xc => (a as i32).wrapping_shr(b) as u32,
        _ => return None,
    })
}

fn compare(operation: u8, a: u64, b: u64) -> Option<bool> {
    let (signed_a, signed_b) = (a as i64, b as i64);
    Some(match operation {
        0x0 => true,
        0x1 => a == b,
        0x2 => a > b,
        0x3 => a >= b,
        0x4 => a & b != 0,
        0x5 => a != b,
        0x6 => signed_a > signed_b,
        0x7 => signed_a >= signed_b,
        0xa => a < b,
        0xb => a <= b,
        0xc => signed_a < signed_b,
        0xd => signed_a <= signed_b,
        _ => return None,
    })
}

#[test]
fn the_interpreter_counts_as_the_instruction_set_says() {
    assert_eq!(alu64(0x3, 7, 0), Some(0));
    assert_eq!(alu64(0x9, 7, 0), Some(7));
    assert_eq!(alu32(0x6, 1, 33), Some(2));
    assert_eq!(alu64(0xc, -8i64 as u64, 1), Some(-4i64 as u64));
    assert_eq!(compare(0x5, u64::MAX, i64::from(-1) as u64), Some(false));
    assert_eq!(compare(0xc, u64::MAX, 0), Some(true));
    // r0 = -1; if r0 != -1 goto +1; r0 = 5; exit
    let code = [
        [0xb7, 0, 0, 0, 255, 255, 255, 255],
        [0x55, 0, 1, 0, 255, 255, 255, 255],
        [0xb7, 0, 0, 0, 5, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(Machine::new(&code.concat(), &[], Vec::new()).execute(0, &[]), Ok(5));
}
