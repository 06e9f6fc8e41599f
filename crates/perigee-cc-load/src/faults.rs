//! Notes where an author's code faults: a handler of the signals that end a process writes the addresses of the instruction
//! and of the calls that led to it into the shared note, and lets the signal end the process.
//!
//! The handler runs after a crash, where nothing may be trusted: it only compares and stores numbers, reads the stack within
//! its bounds, and has a stack of its own, since the code may have used up the other one.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

use perigee_cc::ProgressNote;

/// Asks a process that makes no progress where it is; it is ended afterwards.
pub const WHERE: i32 = libc::SIGXCPU;

/// From now on, notes the place of a fault in the calling thread, which runs the libraries; for good.
///
/// # Errors
/// Where the system does not do it.
pub(crate) fn note_faults(note: &'static ProgressNote) -> io::Result<()> {
    NOTE.store(ptr::from_ref(note).cast_mut(), Relaxed);
    STACK_END.store(stack_end()?, Relaxed);
    let stack = Box::leak(vec![0_u8; HANDLER_STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK };
    // SAFETY: the memory is never freed, and this thread has no other such stack in use.
    if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, WHERE] {
        // SAFETY: all bits zero are an action without flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // Handled once: the instruction is executed again, and ends the process.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: the handler makes no call, allocates nothing and takes no lock.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A library was loaded at these addresses; `number` is its place among those of the process.
pub(crate) fn note_library(number: usize, symbol: *const c_void, bytes: u64) {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the structure is ours; any address may be asked for.
    let found = unsafe { libc::dladdr(symbol, &raw mut info) };
    let Some(library) = LIBRARIES.get(number).filter(|_| found != 0) else { return };
    let start = info.dli_fbase as u64;
    library.1.store(start + bytes, Relaxed);
    library.0.store(start, Relaxed);
}

/// The number of a library, and the address within it.
fn within(address: u64) -> Option<(u32, u64)> {
    let is_in = |(start, end): &(AtomicU64, AtomicU64)| (start.load(Relaxed)..end.load(Relaxed)).contains(&address);
    let number = LIBRARIES.iter().position(is_in)?;
    Some((number as u32, address - LIBRARIES[number].0.load(Relaxed)))
}

extern "C" fn handle(_signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let note = NOTE.load(Relaxed);
    if note.is_null() || context.is_null() {
        return;
    }
    // SAFETY: stored from a reference that lives for ever; the kernel gives the context of the interrupted code.
    let (note, registers) = unsafe { (&*note, Registers::of(&*context.cast::<libc::ucontext_t>())) };
    let Some(registers) = registers else { return };
    let mut depth = 0;
    let mut add = |address: u64| {
        let Some((library, offset)) = within(address) else { return };
        note.fault(library, depth, offset);
        depth += 1;
    };
    add(registers.instruction);
    // A call of what is no code has left only where it returns to; an address behind a call is of the line after it.
    if within(registers.instruction).is_none()
        && let Some(back) = registers.returns_to
    {
        add(back.wrapping_sub(1));
    }
    let bounds = registers.stack..STACK_END.load(Relaxed) as u64;
    let mut frame = registers.frame;
    for _ in 0..MOST_STEPS {
        let is_sane = frame % 8 == 0 && bounds.contains(&frame) && bounds.contains(&frame.wrapping_add(15));
        if !is_sane {
            break;
        }
        // SAFETY: two words within the stack of this thread, aligned.
        let (next, back) = unsafe { (*(frame as *const u64), *((frame + 8) as *const u64)) };
        add(back.wrapping_sub(1));
        if next <= frame {
            break;
        }
        frame = next;
    }
}

/// Registers of interrupted code.
struct Registers {
    instruction: u64,
    /// Where the function that has just been called returns to.
    returns_to: Option<u64>,
    stack: u64,
    frame: u64,
}

impl Registers {
    #[cfg(target_arch = "x86_64")]
    #[allow(clippy::unnecessary_wraps, reason = "registers of other processors are not known")]
    fn of(context: &libc::ucontext_t) -> Option<Self> {
        let register = |number: i32| context.uc_mcontext.gregs[number as usize] as u64;
        let stack = register(libc::REG_RSP);
        let end = STACK_END.load(Relaxed) as u64;
        // SAFETY: a word within the stack of this thread, aligned.
        let returns_to = (stack % 8 == 0 && stack < end).then(|| unsafe { *(stack as *const u64) });
        Some(Self { instruction: register(libc::REG_RIP), returns_to, stack, frame: register(libc::REG_RBP) })
    }

    #[cfg(target_arch = "aarch64")]
    #[allow(clippy::unnecessary_wraps, reason = "registers of other processors are not known")]
    fn of(context: &libc::ucontext_t) -> Option<Self> {
        let machine = &context.uc_mcontext;
        let returns_to = Some(machine.regs[30]);
        Some(Self { instruction: machine.pc, returns_to, stack: machine.sp, frame: machine.regs[29] })
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn of(_context: &libc::ucontext_t) -> Option<Self> {
        None
    }
}

/// The address behind the stack of the calling thread.
fn stack_end() -> io::Result<usize> {
    // SAFETY: the attributes are filled by the call, read, and destroyed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let failed = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let (mut start, mut bytes) = (ptr::null_mut(), 0);
        libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        Ok(start as usize + bytes)
    }
}

static NOTE: AtomicPtr<ProgressNote> = AtomicPtr::new(ptr::null_mut());
static STACK_END: AtomicUsize = AtomicUsize::new(0);
/// First address of each library, and the one behind its last.
static LIBRARIES: [(AtomicU64, AtomicU64); MOST_LIBRARIES] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; MOST_LIBRARIES];
/// Faults in further ones have no line.
const MOST_LIBRARIES: usize = 64;
/// The kernel's frame with all vector registers, and the handler's own.
const HANDLER_STACK: usize = 64 << 10;
/// Calls of calls that are looked at.
const MOST_STEPS: usize = 16;
