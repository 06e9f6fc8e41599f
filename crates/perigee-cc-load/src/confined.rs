//! Limits of the process in which an author's code runs. It ends with the process that started it, and a note of its progress
//! survives it.
//!
//! The limits protect from mistakes, not from malice: the code reads what its user reads, unless it is nobody's.

use std::fs;
use std::io;
use std::os::fd::{AsFd, IntoRawFd as _};
use std::path::PathBuf;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::{Object as _, ObjectSegment as _};
use perigee_cc::{Algorithm, ProgressNote};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::mm::{mmap, MapFlags, ProtFlags};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::alone::{become_nobody, stay_alone, Files};
use crate::error::LoadError;
use crate::faults::{note_faults, note_library};

/// An author's file as another process has compiled it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Where it is.
    pub path: PathBuf,
    /// Its text when it was compiled.
    pub source: Vec<u8>,
    /// The shared library that was made of it.
    pub library: Vec<u8>,
}

/// Gives this process its limits, for good: `memory` bytes of address space, few files, no core dumps, no processes of
/// its own, no way into those of others, no file to write, and no network. It is killed when the thread that started
/// it, of the process `parent`, ends. Returns the note in the shared memory `note`, which also gets the place of a
/// fault of the calling thread.
///
/// # Errors
/// If the system does not do it, or the parent is gone already.
pub fn confine(memory: u64, parent: u32, note: impl AsFd) -> io::Result<&'static ProgressNote> {
    limit(memory, MOST_FILES)?;
    hold(Files::Read, parent, note)
}

/// Confines this process as [`confine`] does, and takes root's rights from it, for good: it is nobody, and opens no file at all. It
/// may be handed `sockets`. Where it has real-time priority, it is killed if it does not block for two seconds.
///
/// # Errors
/// As [`confine`].
pub fn confine_nobody(memory: u64, sockets: u64, parent: u32, note: impl AsFd) -> io::Result<&'static ProgressNote> {
    limit(memory, MOST_FILES + sockets)?;
    lower(Resource::Rttime, REAL_TIME_US, KILLED_US)?;
    become_nobody()?;
    hold(Files::None, parent, note)
}

/// Limits this process to this address space, bytes, and to this many open files.
fn limit(memory: u64, files: u64) -> io::Result<()> {
    let limits =
        [(Resource::As, memory), (Resource::Core, 0), (Resource::Fsize, MOST_FILE_BYTES), (Resource::Nofile, files)];
    for (resource, most) in limits {
        lower(resource, most, most)?;
    }
    Ok(())
}

/// Lowers a limit. Those of the user that are lower stay: to raise them may not be allowed.
fn lower(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum.map_or(maximum, |own| own.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current.min(maximum)), maximum: Some(maximum) })?)
}

/// Ties this process to its parent, and holds it.
fn hold(files: Files, parent: u32, note: impl AsFd) -> io::Result<&'static ProgressNote> {
    // A change of the user unties a process.
    perigee_cc_build::die_with(parent)?;
    // SAFETY: a new mapping, of memory that is large enough (or else a signal ends this process), never unmapped.
    let at = unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        mmap(std::ptr::null_mut(), ProgressNote::BYTES, access, MapFlags::SHARED, note, 0)?
    };
    // SAFETY: aligned to a page, all bits are valid, and all access is atomic.
    let note: &'static ProgressNote = unsafe { &*at.cast::<ProgressNote>() };
    // It asks for the stack's bounds, which the C library reads from a file.
    note_faults(note)?;
    stay_alone(files)?;
    Ok(note)
}

/// Loads a library for good, which executes its constructors: only for a process that was made for it. `number` is its place
/// among those of the process.
pub(crate) fn open(library: &[u8], number: usize) -> Result<Algorithm, LoadError> {
    let file = memfd_create("perigee-cc", MemfdFlags::CLOEXEC).map_err(|error| LoadError::Temporary(error.into()))?;
    // Never closed: the system's loader tells libraries by their paths, and the next file would get this one's number.
    let path = format!("/proc/self/fd/{}", file.into_raw_fd());
    fs::write(&path, library).map_err(LoadError::Temporary)?;
    let bytes = image_bytes(library);
    // SAFETY: the author's code, in a process that was made for it.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(LoadError::Library)?;
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: only the address is taken.
        let symbol = unsafe { library.get::<*const std::ffi::c_void>(name.to_bytes_with_nul()) };
        symbol.ok().map(|symbol| symbol.into_raw().cast_const())
    };
    if let Some(layout) = symbol(c"perigee_cc_layout") {
        note_library(number, layout.cast(), bytes);
    }
    // SAFETY: compiled with CC_LIBRARY; the library is kept loaded below, where anything of it is used.
    let algorithm = unsafe { perigee_cc::admit(&symbol) }.map_err(LoadError::Refused)?;
    std::mem::forget(library);
    Ok(algorithm)
}

/// Bytes of address space that a library takes.
fn image_bytes(library: &[u8]) -> u64 {
    let Ok(file) = object::File::parse(library) else { return 0 };
    file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or_default()
}

/// Size of each file that may be written; a library of an author's file is smaller.
const MOST_FILE_BYTES: u64 = 64 << 20;
/// Processor time at real-time priority without a pause, us. The kernel then sends SIGXCPU, by which the place of the code is noted
/// ([`crate::WHERE`]).
const REAL_TIME_US: u64 = 2_000_000;
/// When the kernel sends SIGKILL for it: before the next SIGXCPU, 1 s later.
const KILLED_US: u64 = 2_200_000;
/// Its pipes, its note, and a library for each of an author's files.
const MOST_FILES: u64 = 256;
