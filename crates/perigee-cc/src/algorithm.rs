//! The registry: one entry per file of `algorithms/`, and the algorithms of authors' libraries.

use std::ffi::{c_char, c_void, CStr};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::parameter::Param;
use crate::progress::ProgressNote;
use crate::raw::{Ops, RawAlgorithm, ReadWatched};
use crate::sock::MAX_PARAMS;
use crate::watched::{Watched, STATE_COLUMNS};

/// A congestion control.
#[derive(Clone)]
pub struct Algorithm {
    /// `None`: it is only described.
    pub(crate) ops: Option<Ops>,
    /// `None`: it has no watched values, or is only described.
    pub(crate) read: Option<ReadWatched>,
    /// `None`: it is no module of the kernel, or is only described.
    begin: Option<Begin>,
    pub(crate) about: About,
    digest: u64,
    file: Option<Arc<File>>,
    note: Option<&'static ProgressNote>,
}

/// Executes the init of a module with the values of its parameters.
type Begin = unsafe extern "C" fn(*const u64) -> i32;

/// The description of an algorithm: all but its callbacks.
#[derive(Clone)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) state_bytes: u32,
    pub(crate) storage_bytes: u32,
    pub(crate) watched: Vec<Watched>,
    pub(crate) slots: Slots,
    /// Bits of [`crate::flags`].
    pub(crate) flags: u32,
}

/// Presence of the callbacks that a host requires or asks for.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) ssthresh: bool,
    pub(crate) cong_avoid: bool,
    pub(crate) cong_control: bool,
    pub(crate) undo_cwnd: bool,
}

/// The file of an author's algorithm, with its compiled forms.
#[derive(Debug)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// The folder of the `tcp.h` that it includes.
    pub headers: PathBuf,
    /// Its text when it was compiled.
    pub source: Vec<u8>,
    /// The shared library that was made of it.
    pub library: Vec<u8>,
    /// The kernel's object and its compiler's warnings, made at the first request.
    pub kernel: OnceLock<(Vec<u8>, String)>,
}

impl Algorithm {
    /// Its name in results: the one that its file registers, unless [`Algorithm::from_file`] gave it another.
    pub fn name(&self) -> &str {
        &self.about.name
    }
    /// Its name and source in one line.
    pub fn title(&self) -> &'static str {
        self.about.title
    }
    /// Its parameters, in the order of [`crate::TcpSock::cc_params`].
    pub fn params(&self) -> &[Param] {
        &self.about.params
    }
    /// Its callbacks; `None`: it is only described.
    pub fn ops(&self) -> Option<&Ops> {
        self.ops.as_ref()
    }
    /// Whether it can be called: an author's file is loaded only in a process of its own, and described elsewhere.
    pub fn is_loaded(&self) -> bool {
        self.ops.is_some()
    }
    /// Returns an algorithm of this name and parameters with other callbacks: to watch it at work, or to put another build of it
    /// in its place. It lives as long as the program.
    ///
    /// # Safety
    /// Each callback must be sound for any [`crate::TcpSock`], as [`Ops`] says.
    pub unsafe fn with_ops(&self, ops: Ops) -> &'static Self {
        Box::leak(Box::new(Self { ops: Some(ops), ..self.clone() }))
    }
    /// Size of its state in the socket's private area, at most [`crate::CA_PRIV_BYTES`].
    pub fn state_bytes(&self) -> u32 {
        self.about.state_bytes
    }
    /// Size of its state in per-socket storage beyond the private area; 0: it needs none.
    pub fn storage_bytes(&self) -> u32 {
        self.about.storage_bytes
    }
    /// The values of its state that results may show, in the order of [`crate::Socket::watch`].
    pub fn watched(&self) -> &[Watched] {
        &self.about.watched
    }
    /// Returns this algorithm as one of an author's files: results call it `name`, and one with another `digest` is not the
    /// same algorithm.
    #[must_use]
    pub fn from_file(self, name: String, digest: u64, file: File) -> Self {
        Self { about: About { name, ..self.about }, digest, file: Some(Arc::new(file)), ..self }
    }
    /// Returns this algorithm, loaded from the file of `described`, as that one: by its name in results, and the same algorithm.
    #[must_use]
    pub fn in_place_of(self, described: &Self) -> Self {
        let about = About { name: described.about.name.clone(), ..self.about };
        Self { about, digest: described.digest, file: described.file.clone(), ..self }
    }
    /// Returns this algorithm with its calls noted there, see [`ProgressNote`].
    #[must_use]
    pub fn noted(self, note: &'static ProgressNote) -> Self {
        Self { note: Some(note), ..self }
    }
    /// Where its calls are noted, if they are.
    pub fn note(&self) -> Option<&'static ProgressNote> {
        self.note
    }
    /// An algorithm that is not loaded.
    pub(crate) fn described(about: About) -> Self {
        Self { ops: None, read: None, begin: None, about, digest: 0, file: None, note: None }
    }
    /// Hash of the program in its file; 0 for a built-in one, which the build in results identifies.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
    /// The error with which its module does not begin with these values, as a negative number of the system; 0: it begins.
    pub(crate) fn begin(&self, values: &[u64; MAX_PARAMS]) -> i32 {
        // SAFETY: CC_PARAMETERS allows no more parameters than there are values.
        self.begin.map_or(0, |begin| unsafe { begin(values.as_ptr()) })
    }
    /// The author's file that it is of; `None`: it is part of this program.
    pub fn file(&self) -> Option<&File> {
        self.file.as_deref()
    }
    /// It owns window and pacing rate; otherwise the host reduces the window and paces, if it does.
    pub fn has_cong_control(&self) -> bool {
        self.about.slots.cong_control
    }
    /// Both ends negotiate ECN whatever their settings say, all packets are ECT, and the receiver's half decides with the
    /// algorithm how marks are acknowledged (`TCP_CONG_NEEDS_ECN`).
    pub fn needs_ecn(&self) -> bool {
        self.about.flags & crate::flags::NEEDS_ECN != 0
    }
    /// It reads how many marks have arrived (`delivered_ce`), where packets are ECN-capable: a built-in one that is known to, or an
    /// author's whose text has the field.
    pub fn counts_marks(&self) -> bool {
        let is_in = |source: &[u8]| source.windows(MARKS.len()).any(|word| word == MARKS.as_bytes());
        self.needs_ecn()
            || READERS_OF_MARKS.contains(&self.name())
            || self.file().is_some_and(|file| is_in(&file.source))
    }
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Algorithm")
            .field("name", &self.about.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// Every algorithm there is, by name.
pub fn algorithms() -> &'static [Algorithm] {
    static ALGORITHMS: LazyLock<Vec<Algorithm>> =
        LazyLock::new(|| ALL.iter().map(|exported| load(exported.get())).collect());
    &ALGORITHMS
}

/// The algorithm of this name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    algorithms().iter().find(|a| a.name() == name)
}

/// Why the host refuses a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It exports no algorithm.
    Unregistered,
    /// It was compiled with another layout of the structs in `tcp.h`.
    OtherLayout,
    /// Linux refuses an algorithm that lacks it, and so does this host.
    Callback {
        /// The algorithm.
        name: String,
        /// The name of the missing callback.
        callback: &'static str,
    },
    /// A default outside its bounds could never be set.
    Default {
        /// The parameter.
        parameter: String,
    },
    /// A watched value whose name another one has, or a column of every algorithm.
    Watched {
        /// The name.
        name: String,
    },
    /// Its tables are not those that the macros of `tcp.h` write.
    Unreadable {
        /// The part of it that is wrong.
        what: &'static str,
    },
}

impl Refusal {
    fn parts(&self) -> (String, String) {
        let (message, fix) = match self {
            Self::Unregistered => (
                "it registers no algorithm".into(),
                "end it with CC_REGISTER, or begin with what `perigee cc new` writes",
            ),
            Self::OtherLayout => (
                "it was compiled with another version's tcp.h, whose sockets are not this one's".into(),
                "remove the copy of tcp.h beside it",
            ),
            Self::Callback { name, callback } => (format!("`{name}` has no `{callback}`"), "add it to CC_REGISTER"),
            Self::Default { parameter } => (
                format!("the default of `{parameter}` is not between its bounds"),
                "correct its line in the list of parameters",
            ),
            Self::Watched { name } => {
                (format!("the watched value `{name}` is a column already"), "rename it in the list of watched values")
            }
            Self::Unreadable { what } => (
                format!("its {what} cannot be read"),
                "register it with CC_REGISTER, its parameters with CC_PARAMETERS",
            ),
        };
        (message, fix.to_owned())
    }

    /// Returns a description of the error without the fix.
    pub fn message(&self) -> String {
        self.parts().0
    }

    /// Returns the fix.
    pub fn fix(&self) -> String {
        self.parts().1
    }
}

/// `message; fix`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, fix) = self.parts();
        write!(f, "{message}; {fix}")
    }
}

impl std::error::Error for Refusal {}

/// The algorithm of a library; `symbol` gives the address of what the library exports under a name.
///
/// # Safety
/// The addresses are those of a library that was compiled from a file that includes `tcp.h`, with `CC_LIBRARY` defined,
/// and that stays loaded as long as the process lives where an algorithm is returned.
///
/// # Errors
/// If the library exports no algorithm, or one that this host cannot run.
pub unsafe fn admit(symbol: &dyn Fn(&CStr) -> Option<*const c_void>) -> Result<Algorithm, Refusal> {
    let (Some(layout), Some(algorithm)) = (symbol(c"perigee_cc_layout"), symbol(c"perigee_cc_algorithm")) else {
        return Err(Refusal::Unregistered);
    };
    // SAFETY: CC_EXPORT defines it as a u64, in every version.
    if !is_our_layout(unsafe { *layout.cast::<u64>() }) {
        return Err(Refusal::OtherLayout);
    }
    // SAFETY: CC_EXPORT makes it the address of a constant; the layout is ours.
    let algorithm = load(unsafe { &**algorithm.cast::<*const RawAlgorithm>() });
    check(&algorithm.about)?;
    // SAFETY: kernel.h defines it as such a function.
    let begin = symbol(c"perigee_cc_begin").map(|begin| unsafe { std::mem::transmute::<*const c_void, Begin>(begin) });
    Ok(Algorithm { begin, ..algorithm })
}

/// Refuses what Linux would refuse, and defaults that could never be set.
pub(crate) fn check(about: &About) -> Result<(), Refusal> {
    let slots = about.slots;
    let callbacks = [
        ("ssthresh", slots.ssthresh),
        ("cong_avoid or cong_control", slots.cong_avoid || slots.cong_control),
        ("undo_cwnd", slots.undo_cwnd),
    ];
    if let Some((callback, _)) = callbacks.into_iter().find(|(_, is_there)| !is_there) {
        return Err(Refusal::Callback { name: about.name.clone(), callback });
    }
    let names = || about.watched.iter().map(|one| one.name);
    let is_taken =
        |(place, name): &(usize, &str)| STATE_COLUMNS.contains(name) || names().take(*place).any(|n| n == *name);
    if let Some((_, name)) = names().enumerate().find(is_taken) {
        return Err(Refusal::Watched { name: name.to_owned() });
    }
    match about.params.iter().find(|p| !(p.min..=p.max).contains(&p.default)) {
        Some(param) => Err(Refusal::Default { parameter: param.name.to_owned() }),
        None => Ok(()),
    }
}

fn load(raw: &'static RawAlgorithm) -> Algorithm {
    // SAFETY: CC_REGISTER makes `params` an array of at least `param_count` entries.
    let params = unsafe { std::slice::from_raw_parts(raw.params, raw.param_count as usize) };
    let params = params.iter().map(|p| Param {
        name: text(p.name),
        unit: text(p.unit),
        default: p.fallback,
        min: p.low,
        max: p.high,
        doc: text(p.doc),
    });
    // SAFETY: CC_REGISTER takes the address of a constant; all of it is zero without CC_WATCH.
    let watch = unsafe { &*raw.watch };
    let watched = if watch.values.is_null() {
        &[]
    } else {
        // SAFETY: CC_WATCH makes `values` an array of `count` entries.
        unsafe { std::slice::from_raw_parts(watch.values, watch.count as usize) }
    };
    let watched = watched.iter().map(|one| Watched::new(text(one.name), text(one.unit), text(one.doc)));
    let about = About {
        name: text(raw.ops.name.as_ptr()).to_owned(),
        title: text(raw.title),
        params: params.collect(),
        // SAFETY: CC_REGISTER takes the addresses of constants of the object.
        state_bytes: unsafe { *raw.state_bytes },
        // SAFETY: as above.
        storage_bytes: unsafe { *raw.storage_bytes },
        watched: watched.collect(),
        slots: Slots {
            ssthresh: raw.ops.ssthresh.is_some(),
            cong_avoid: raw.ops.cong_avoid.is_some(),
            cong_control: raw.ops.cong_control.is_some(),
            undo_cwnd: raw.ops.undo_cwnd.is_some(),
        },
        flags: raw.ops.flags,
    };
    Algorithm { ops: Some(raw.ops), read: watch.read, begin: None, about, digest: 0, file: None, note: None }
}

/// A string literal of the C file.
fn text(literal: *const c_char) -> &'static str {
    // SAFETY: the macros of tcp.h accept literals only: terminated, and alive as long as the program.
    let literal = unsafe { CStr::from_ptr(literal) };
    literal.to_str().unwrap_or("(not UTF-8)")
}

/// Address of an object file's registration.
struct Exported(*const RawAlgorithm);

// SAFETY: the address is of constant data.
unsafe impl Sync for Exported {}

impl Exported {
    fn get(&self) -> &'static RawAlgorithm {
        // SAFETY: a constant of the linked object; the build compared its layout.
        unsafe { &*self.0 }
    }
}

/// Whether structs of this digest are ours.
pub(crate) fn is_our_layout(layout: u64) -> bool {
    layout == LAYOUT
}

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The field of the socket that counts marks.
const MARKS: &str = "delivered_ce";
/// Built-in algorithms that read [`MARKS`] where packets are ECN-capable.
const READERS_OF_MARKS: [&str; 1] = ["bbr3"];

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(name: &str) -> Option<(u32, u32)> {
        find(name).map(|algorithm| (algorithm.state_bytes(), algorithm.storage_bytes()))
    }

    #[test]
    fn every_algorithm_has_the_callbacks_that_linux_requires() {
        for algorithm in algorithms() {
            assert_eq!(check(&algorithm.about), Ok(()), "{}", algorithm.name());
        }
    }

    #[test]
    fn an_algorithm_says_how_large_its_state_is() {
        assert_eq!(sizes("reno").map(|(private, _)| private), Some(0));
        assert!(sizes("compound").is_some_and(|(private, storage)| private > 0 && storage == 0));
        assert!(sizes("vivace").is_some_and(|(private, storage)| private == 0 && storage > 104));
    }
}
