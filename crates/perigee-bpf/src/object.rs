//! A BPF object before it is registered: parameters, name, verification.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::btf::{types, Btf};
use libbpf_rs::{AsRawLibbpf as _, Link, MapCore as _, MapType, Object, ObjectBuilder, OpenObject, PrintLevel};
use perigee_cc::Selected;
use rustix::time::{clock_gettime, ClockId};
use thiserror::Error;

/// Why an object was not registered.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// It is not compiled from a file with `CC_REGISTER`.
    #[error("the object is no congestion control: {reason}; compile the file with algorithms/tcp.h")]
    Foreign {
        /// The defect.
        reason: String,
    },
    /// The verifier, or libbpf before it, refused it.
    #[error("the kernel refused it: {reason}\n{}", last_lines(log))]
    Refused {
        /// The error of the system call.
        reason: String,
        /// The log of libbpf and the verifier.
        log: String,
    },
    /// The kernel accepted the programs but not the algorithm.
    #[error("the kernel did not register it: {reason}")]
    NotRegistered {
        /// The error of the system call.
        reason: String,
    },
}

/// Prefix lengths by which connections remember paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// Length of the prefix of an IPv4 address, 1 to 32.
    pub v4: u8,
    /// Length of the prefix of an IPv6 address, 1 to 128.
    pub v6: u8,
}

impl Default for Remember {
    fn default() -> Self {
        Self { v4: 24, v6: 48 }
    }
}

/// An opened object; nothing of it is in the kernel.
pub(crate) struct Opened {
    object: OpenObject,
    name: String,
}

impl Opened {
    /// Opens an object.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ObjectError> {
        let said = Listening::start();
        // The name that other tools show for its maps.
        let opened = ObjectBuilder::default().name("perigee").and_then(|builder| builder.open_memory(bytes));
        let mut object = opened.map_err(|error| foreign(&format!("{error}\n{}", said.text())))?;
        let name = with_name(&mut object, |field| {
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        })?;
        Ok(Self { object, name })
    }

    /// The algorithm's own name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the algorithm can remember paths.
    pub(crate) fn has_memory(&self) -> bool {
        self.object.maps().any(|map| map.name() == PATHS)
    }

    /// Lets it remember paths by these prefixes, in the map that is pinned at `earlier`, if there is one.
    pub(crate) fn remember(&mut self, remember: Remember, earlier: Option<&Path>) -> Result<(), ObjectError> {
        let lengths = [("remember_v4", remember.v4), ("remember_v6", remember.v6)];
        let lengths =
            lengths.map(|(name, bits)| place(&self.object, name).map(|at| at.map(|at| (at, u64::from(bits)))));
        let cells = lengths.into_iter().collect::<Result<Option<Vec<_>>, _>>()?;
        set_constants(&mut self.object, &cells.ok_or_else(|| foreign("it has no memory of paths"))?)?;
        let mut map = self.object.maps_mut().find(|map| map.name() == PATHS);
        let map = map.as_mut().ok_or_else(|| foreign("it has no memory of paths"))?;
        let done =
            map.set_max_entries(MOST_PATHS).and_then(|()| earlier.map_or(Ok(()), |path| map.reuse_pinned_map(path)));
        done.map_err(|error| foreign(&error.to_string()))
    }

    /// Sets the parameters and the registered name, and verifies the programs.
    pub(crate) fn verify(mut self, selected: &Selected, name: &str) -> Result<Verified, ObjectError> {
        set_parameters(&mut self.object, selected)?;
        with_name(&mut self.object, |field| {
            field.fill(0);
            field[..name.len()].copy_from_slice(name.as_bytes());
        })?;
        let said = Listening::start();
        match self.object.load() {
            Ok(object) => Ok(Verified { object }),
            Err(error) => Err(ObjectError::Refused { reason: error.to_string(), log: said.text() }),
        }
    }
}

/// An object with verified programs; nothing is registered yet.
pub(crate) struct Verified {
    object: Object,
}

impl Verified {
    /// Pins the map of remembered paths.
    pub(crate) fn pin_memory(&mut self, path: &Path) -> Result<(), libbpf_rs::Error> {
        let mut map = self.object.maps_mut().find(|map| map.name() == PATHS);
        map.as_mut().map_or(Ok(()), |map| map.pin(path))
    }

    /// Registers the algorithm for the lifetime of the link.
    pub(crate) fn register(&mut self) -> Result<Link, ObjectError> {
        let said = Listening::start();
        let mut map = self.object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
        let attached = map.as_mut().ok_or_else(|| foreign("it has no .struct_ops"))?.attach_struct_ops();
        attached.map_err(|error| {
            let said = said.text();
            let separator = if said.is_empty() { "" } else { "; " };
            ObjectError::NotRegistered { reason: format!("{error}{separator}{}", said.trim()) }
        })
    }

    /// Replaces the version that the link holds with this one.
    pub(crate) fn replace(&mut self, link: &Link) -> Result<(), ObjectError> {
        use std::os::fd::{AsFd as _, AsRawFd as _};

        // Registration passes the table of callbacks to the kernel, and fails because the name is taken. That is
        // expected: the table is complete, and the link can be updated to it.
        match self.register() {
            Ok(_) => {
                return Err(ObjectError::NotRegistered { reason: "the earlier version was not registered".into() })
            }
            Err(ObjectError::NotRegistered { .. }) => {}
            Err(other) => return Err(other),
        }
        let map = self.object.maps().find(|map| map.map_type() == MapType::StructOps);
        let map = map.ok_or_else(|| foreign("it has no .struct_ops"))?;
        // SAFETY: both descriptors are open for the call, which accesses no other memory.
        let code = unsafe {
            libbpf_rs::libbpf_sys::bpf_link_update(link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd(), std::ptr::null())
        };
        if code == 0 {
            return Ok(());
        }
        let reason = std::io::Error::from_raw_os_error(-code).to_string();
        Err(ObjectError::NotRegistered { reason: format!("the earlier version stays: {reason}") })
    }
}

/// Sets the object's `const volatile u64 param_NAME` to the values of `selected`, and `loaded_ns`, which objects of earlier
/// versions lack, to now.
fn set_parameters(opened: &mut OpenObject, selected: &Selected) -> Result<(), ObjectError> {
    let mut cells = Vec::new();
    for (param, value) in selected.algorithm().params().iter().zip(selected.values()) {
        let at = place(opened, &format!("param_{}", param.name))?;
        let missing = || foreign(&format!("it has no parameter `{}`", param.name));
        cells.push((at.ok_or_else(missing)?, *value));
    }
    let now = clock_gettime(ClockId::Monotonic);
    cells.extend(place(opened, "loaded_ns")?.map(|at| (at, now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)));
    set_constants(opened, &cells)
}

/// Sets numbers of 64 bits at these offsets of the constants.
fn set_constants(opened: &mut OpenObject, cells: &[(usize, u64)]) -> Result<(), ObjectError> {
    if cells.is_empty() {
        return Ok(());
    }
    let mut map = opened.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let data = map.as_mut().and_then(|map| map.initial_value_mut()).ok_or_else(|| foreign("it has no parameters"))?;
    for (at, value) in cells {
        let cell = data.get_mut(*at..at + size_of::<u64>()).ok_or_else(|| foreign("its parameters end early"))?;
        cell.copy_from_slice(&value.to_ne_bytes());
    }
    Ok(())
}

/// Offset of a number of 64 bits in the constants, if it is there.
fn place(opened: &OpenObject, wanted: &str) -> Result<Option<usize>, ObjectError> {
    with_types(opened, |btf| {
        let section: types::DataSec<'_> = btf.type_by_name(".rodata")?;
        let variable = section.iter().find(|info| {
            let variable: Option<types::Var<'_>> = btf.type_by_id(info.ty);
            info.size == size_of::<u64>() && variable.and_then(|var| var.name()).is_some_and(|name| name == wanted)
        });
        variable.map(|info| info.offset as usize)
    })
}

/// Calls `work` on the name in the table of callbacks.
fn with_name<T>(opened: &mut OpenObject, work: impl FnOnce(&mut [u8]) -> T) -> Result<T, ObjectError> {
    let bits = with_types(opened, |btf| {
        let ops: types::Struct<'_> = btf.type_by_name("tcp_congestion_ops")?;
        let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "name"))?;
        match member.attr {
            types::MemberAttr::Normal { offset } => Some(offset as usize),
            types::MemberAttr::BitField { .. } => None,
        }
    })?;
    let at = bits.ok_or_else(|| foreign("its tcp_congestion_ops has no name"))? / 8;
    let mut tables: Vec<_> = opened.maps_mut().filter(|map| map.map_type() == MapType::StructOps).collect();
    let [table] = tables.as_mut_slice() else {
        return Err(foreign(&format!("it registers {} algorithms instead of one", tables.len())));
    };
    // A link can be pinned, updated in place and detached; without one, the kernel keeps the algorithm until it is
    // deleted.
    table.set_map_flags(BPF_F_LINK).map_err(|error| foreign(&error.to_string()))?;
    let data = table.initial_value_mut().ok_or_else(|| foreign("its table of callbacks is empty"))?;
    let field = data.get_mut(at..at + NAME_BYTES).ok_or_else(|| foreign("its table of callbacks ends early"))?;
    Ok(work(field))
}

fn with_types<T>(opened: &OpenObject, look: impl FnOnce(&Btf<'_>) -> T) -> Result<T, ObjectError> {
    let object = opened.as_libbpf_object();
    // SAFETY: the object is open, and outlives this view of its types.
    let btf = Btf::from_bpf_object(unsafe { object.as_ref() });
    let btf = btf.map_err(|error| foreign(&error.to_string()))?;
    Ok(look(&btf.ok_or_else(|| foreign("it has no type information"))?))
}

fn foreign(reason: &str) -> ObjectError {
    ObjectError::Foreign { reason: reason.trim().to_owned() }
}

/// The last lines of a log, where the verifier states the error.
pub(crate) fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let mut text = String::new();
    for line in &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
        let _ = writeln!(text, "  {line}");
    }
    text.trim_end().to_owned()
}

/// libbpf has one print function per process; this collects its messages as long as it lives.
pub(crate) struct Listening {
    heard: &'static Mutex<String>,
    _alone: MutexGuard<'static, ()>,
    before: Option<(PrintLevel, libbpf_rs::PrintCallback)>,
}

impl Listening {
    pub(crate) fn start() -> Self {
        let alone = hold(&ALONE);
        hold(&HEARD).clear();
        Self { heard: &HEARD, _alone: alone, before: libbpf_rs::set_print(Some((PrintLevel::Warn, hear))) }
    }

    pub(crate) fn text(&self) -> String {
        hold(self.heard).clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        libbpf_rs::set_print(self.before);
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the signature is the library's")]
fn hear(_level: PrintLevel, message: String) {
    hold(&HEARD).push_str(&message);
}

fn hold<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static ALONE: Mutex<()> = Mutex::new(());
static HEARD: Mutex<String> = Mutex::new(String::new());

/// Paths that are remembered at a time; of more, the one that was used longest ago goes.
const MOST_PATHS: u32 = 4096;
/// The map of `CC_PATHS`.
const PATHS: &str = "path_map";
/// `TCP_CA_NAME_MAX`, the terminating zero included.
pub(crate) const NAME_BYTES: usize = 16;
/// `linux/bpf.h`.
const BPF_F_LINK: u32 = 1 << 13;
const LINES_SHOWN: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_told_so() {
        let error = Opened::read(b"#include <linux/tcp.h>").err().unwrap();
        assert!(matches!(error, ObjectError::Foreign { .. }), "{error}");
    }

    #[test]
    fn a_refusal_shows_the_end_of_the_log() {
        let log = (1..=100).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        let said = ObjectError::Refused { reason: "Invalid argument".into(), log }.to_string();
        assert!(!said.contains("line 70\n") && said.contains("line 71\n") && said.ends_with("line 100"), "{said}");
    }
}
