//! Requirements on kernel and process; each missing one is an error with its fix.

use std::path::Path;
use std::sync::OnceLock;

use libbpf_rs::btf::{types, Btf};
use libbpf_rs::ReferencesType;
use rustix::thread::{capabilities, CapabilitySet};
use thiserror::Error;

/// A missing requirement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// The kernel is older than [`OLDEST`].
    #[error("this kernel is Linux {found}; loading a congestion control needs 6.12 or newer: boot a newer kernel")]
    NewerKernel {
        /// Its release.
        found: String,
    },
    /// The kernel has no BTF.
    #[error("this kernel has no {BTF}; it needs CONFIG_DEBUG_INFO_BTF=y, as distributions set it")]
    Btf,
    /// The kernel takes no TCP congestion controls in BPF.
    #[error(
        "this kernel takes no congestion control from BPF: its BTF has no {STRUCT_OPS}; it needs CONFIG_BPF_JIT=y"
    )]
    StructOps,
    /// `cong_control` has other arguments than since Linux 6.10.
    #[error(
        "this kernel's cong_control has {found} arguments instead of 4 (Linux 6.10 and newer): boot a newer kernel"
    )]
    CongControl {
        /// The number of its arguments.
        found: usize,
    },
    /// The process lacks capabilities.
    #[error("this process lacks {capabilities}; run the command as root, or with these capabilities (setpriv)")]
    Capabilities {
        /// Their names.
        capabilities: String,
    },
}

impl Missing {
    /// True if root would not lack it.
    pub fn needs_root(&self) -> bool {
        matches!(self, Self::Capabilities { .. })
    }
}

/// Checks that this process on this kernel can load congestion controls.
///
/// # Errors
/// The first missing requirement.
pub fn check() -> Result<(), Missing> {
    check_process()?;
    check_kernel()
}

/// Checks that this process may load and unload.
///
/// # Errors
/// [`Missing::Capabilities`].
pub fn check_process() -> Result<(), Missing> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let lacking = lacking(held);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Missing::Capabilities { capabilities: lacking.join(", ") })
}

/// Checks the kernel.
///
/// # Errors
/// The first missing requirement.
pub fn check_kernel() -> Result<(), Missing> {
    // Cached: the types are megabytes, and the running kernel does not change.
    static ANSWER: OnceLock<Result<(), Missing>> = OnceLock::new();
    ANSWER.get_or_init(read_kernel).clone()
}

fn read_kernel() -> Result<(), Missing> {
    let system = rustix::system::uname();
    check_release(&system.release().to_string_lossy())?;
    check_types(Path::new(BTF))
}

fn check_types(path: &Path) -> Result<(), Missing> {
    let btf = Btf::from_path(path).map_err(|_| Missing::Btf)?;
    let present = btf.type_by_name::<types::Struct<'_>>(STRUCT_OPS).is_some();
    if !present {
        return Err(Missing::StructOps);
    }
    match arguments_of_cong_control(&btf) {
        Some(4) => Ok(()),
        found => Err(Missing::CongControl { found: found.unwrap_or(0) }),
    }
}

fn check_release(release: &str) -> Result<(), Missing> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        return Err(Missing::NewerKernel { found: release.to_owned() });
    }
    Ok(())
}

fn arguments_of_cong_control(btf: &Btf<'_>) -> Option<usize> {
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer: types::Ptr<'_> = btf.type_by_id(member.ty)?;
    let function = types::FuncProto::try_from(pointer.referenced_type().skip_mods_and_typedefs()).ok()?;
    Some(function.iter().count())
}

/// `struct_ops` programs read kernel memory, hence `CAP_PERFMON`; `CAP_SYS_ADMIN` implies it and `CAP_BPF`.
fn lacking(held: CapabilitySet) -> Vec<&'static str> {
    let admin = held.contains(CapabilitySet::SYS_ADMIN);
    let needed = [
        ("CAP_BPF", admin || held.contains(CapabilitySet::BPF)),
        ("CAP_PERFMON", admin || held.contains(CapabilitySet::PERFMON)),
        ("CAP_NET_ADMIN", held.contains(CapabilitySet::NET_ADMIN)),
    ];
    needed.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect()
}

/// The oldest supported kernel.
pub const OLDEST: (u32, u32) = (6, 12);
const BTF: &str = "/sys/kernel/btf/vmlinux";
const STRUCT_OPS: &str = "bpf_struct_ops_tcp_congestion_ops";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_too_old_is_named() {
        for old in ["5.15.0-91-generic", "6.11.9", "6.1.0-18-amd64", "strange"] {
            let said = check_release(old).unwrap_err().to_string();
            assert!(said.contains(old) && said.contains("6.12"), "{said}");
        }
        for new in ["6.12", "6.12.0-rc1", "6.18.44-fc", "7.0.1"] {
            assert_eq!(check_release(new), Ok(()), "{new}");
        }
    }

    /// The types of a C file instead of the kernel's; `None` without clang.
    fn types_of(name: &str, text: &str) -> Option<Result<(), Missing>> {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join(format!("{name}.c")), folder.path().join("types.o"));
        std::fs::write(&source, text).unwrap();
        match perigee_cc_build::kernel_object(&source, folder.path(), &object) {
            Ok(_) => Some(check_types(&object)),
            Err(missing) => {
                println!("skipped: {missing}");
                None
            }
        }
    }

    #[test]
    fn a_kernel_whose_types_are_not_as_needed_is_told_what_they_lack() {
        let old = "struct tcp_congestion_ops { void (*cong_control)(void *sk, void *sample); };\n";
        let new = "struct tcp_congestion_ops { void (*cong_control)(void *sk, int ack, int flag, void *sample); };\n";
        let ops = "struct bpf_struct_ops_tcp_congestion_ops { struct tcp_congestion_ops data; } ops;\n";
        let Some(found) = types_of("without", "struct tcp_sock { int cwnd; } sock;\n") else { return };
        assert_eq!(found, Err(Missing::StructOps));
        assert_eq!(types_of("old", &format!("{old}{ops}")), Some(Err(Missing::CongControl { found: 2 })));
        assert_eq!(types_of("new", &format!("{new}{ops}")), Some(Ok(())));
        assert_eq!(check_types(Path::new("/nowhere")), Err(Missing::Btf));
    }

    #[test]
    fn each_capability_that_is_missing_is_named() {
        assert_eq!(lacking(CapabilitySet::empty()), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
        assert_eq!(lacking(CapabilitySet::SYS_ADMIN), ["CAP_NET_ADMIN"]);
        assert_eq!(lacking(CapabilitySet::BPF | CapabilitySet::NET_ADMIN), ["CAP_PERFMON"]);
        assert_eq!(lacking(CapabilitySet::all()), [""; 0]);
    }
}
