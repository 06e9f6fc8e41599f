//! The programs that choose a congestion control for sockets: `bpf/selection.c`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::str::FromStr as _;

use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder, ProgramMut};

use crate::error::{SelectionError, SystemError};
use crate::object::{Listening, NAME_BYTES};
use crate::prefix::Prefix;
use crate::store::{Place, RULES, SOCKETS};
use crate::{kernel, namespaces};

/// Open sockets to which an algorithm is given: those of the calling thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSockets {
    /// With this peer.
    pub to: Prefix,
    /// With this port at either end; `None`: any.
    pub port: Option<u16>,
}

impl OpenSockets {
    /// Those with a peer of this prefix, and with this port at either end.
    ///
    /// # Errors
    /// If the text is no prefix.
    pub fn matching(to: Option<&str>, port: Option<u16>) -> Result<Self, crate::PrefixError> {
        Ok(Self { to: to.map_or(Ok(Prefix::ALL), Prefix::from_str)?, port })
    }
}

/// How many sockets were given an algorithm, or given back what they had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) done: usize,
    /// The kernel refused, as where a route locks its algorithm.
    pub(crate) refused: usize,
}

/// The programs, verified.
pub(crate) struct Selection {
    object: Object,
    visiting: Link,
}

#[derive(Clone, Copy)]
enum Action {
    Give,
    GiveBack,
    List,
}

impl Selection {
    /// Loads them, with the maps that are pinned in this folder; pins the notes of sockets there if they are not.
    pub(crate) fn load(shared: &Place) -> Result<Self, SelectionError> {
        let bytes = OBJECT.map_err(SelectionError::NotBuilt)?;
        let said = Listening::start();
        let refused = |error: libbpf_rs::Error| SelectionError::Refused { reason: error.to_string(), log: said.text() };
        let opened = ObjectBuilder::default().name("perigee").and_then(|builder| builder.open_memory(bytes));
        let mut opened = opened.map_err(refused)?;
        for mut map in opened.maps_mut() {
            let pin = [SOCKETS, RULES].into_iter().find(|pin| map.name() == *pin && shared.has(pin));
            if let Some(pin) = pin {
                map.reuse_pinned_map(shared.path(pin)).map_err(refused)?;
            }
        }
        let mut object = opened.load().map_err(refused)?;
        if !shared.has(SOCKETS) {
            pin(&mut object, shared, SOCKETS)?;
        }
        let visiting = program(&object, "visit")?.attach().map_err(refused)?;
        Ok(Self { object, visiting })
    }

    /// Pins the rules, and lets them choose for the sockets below this cgroup as long as the link lives.
    pub(crate) fn choose(&mut self, shared: &Place, root: &File) -> Result<Link, SelectionError> {
        pin(&mut self.object, shared, RULES)?;
        let attached = program(&self.object, "choose")?.attach_cgroup(root.as_raw_fd());
        Ok(attached.map_err(|error| SystemError::new("let rules choose for new connections", error))?)
    }

    /// Gives an algorithm to open sockets of this namespace.
    pub(crate) fn give(&self, cc: &str, sockets: OpenSockets) -> Result<Outcome, SelectionError> {
        let order = order(Action::Give, sockets, cc, "");
        self.carry_out(&order, None).map_err(|error| wrong("give open sockets", cc, error))?;
        self.outcome()
    }

    /// Gives the sockets of all namespaces back what they had before `cc` was given to them, or the default of their
    /// namespace where that is gone.
    pub(crate) fn give_back(&self, cc: &str) -> Result<Outcome, SelectionError> {
        let mut sum = Outcome::default();
        self.everywhere(cc, Action::GiveBack, |_| {
            let Outcome { done, refused } = self.outcome()?;
            sum = Outcome { done: sum.done + done, refused: sum.refused + refused };
            Ok(())
        })?;
        Ok(sum)
    }

    /// The cookies of the sockets that [`Selection::give_back`] would change.
    pub(crate) fn given(&self, cc: &str) -> Result<HashSet<u64>, SelectionError> {
        let mut cookies = HashSet::new();
        self.everywhere(cc, Action::List, |written| {
            let each = written.chunks_exact(size_of::<u64>());
            cookies.extend(each.filter_map(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes));
            Ok(())
        })?;
        Ok(cookies)
    }

    fn everywhere(
        &self,
        cc: &str,
        action: Action,
        mut each: impl FnMut(&[u8]) -> Result<(), SelectionError>,
    ) -> Result<(), SelectionError> {
        let all = OpenSockets { to: Prefix::ALL, port: None };
        for namespace in namespaces::all().0 {
            let default = match namespace.enter(kernel::default_here) {
                Ok(default) => default,
                // The namespace is gone, or not ours to change.
                Err(_) if !namespace.name.is_empty() => continue,
                Err(error) => return Err(wrong("visit the sockets with", cc, error)),
            };
            let order = order(action, all, cc, &default);
            let written = self.carry_out(&order, Some(&namespace));
            each(&written.map_err(|error| wrong("visit the sockets with", cc, error))?)?;
        }
        Ok(())
    }

    /// Visits the sockets of a namespace; what the program wrote about them.
    fn carry_out(&self, order: &[u8], namespace: Option<&namespaces::Namespace>) -> io::Result<Vec<u8>> {
        self.orders()?.update(&FIRST, order, MapFlags::ANY).map_err(io::Error::other)?;
        let link = self.visiting.as_fd();
        match namespace {
            None => visit(link),
            Some(namespace) => namespace.enter(|| visit(link)),
        }
    }

    fn outcome(&self) -> Result<Outcome, SelectionError> {
        let wrong = |error: &dyn std::fmt::Display| SystemError::new("read how many sockets were changed", error);
        let order = self.orders().map_err(|error| wrong(&error))?;
        let order = order.lookup(&FIRST, MapFlags::ANY).map_err(|error| wrong(&error))?.unwrap_or_default();
        let count = |at: usize| {
            order
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, |bytes| u64::from_ne_bytes(bytes) as usize)
        };
        Ok(Outcome { done: count(ORDER_BYTES - 16), refused: count(ORDER_BYTES - 8) })
    }

    fn orders(&self) -> io::Result<libbpf_rs::Map<'_>> {
        let found = self.object.maps().find(|map| map.name() == "orders");
        found.ok_or_else(|| io::Error::other("the object has no map of orders"))
    }
}

/// Reads what the iterator writes about the sockets of the calling thread's namespace.
fn visit(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // SAFETY: the descriptor is open for the call, which accesses no memory.
    let code = unsafe { libbpf_rs::libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if code < 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    // SAFETY: the kernel has just opened it for us.
    let mut iterator = File::from(unsafe { OwnedFd::from_raw_fd(code) });
    let mut written = Vec::new();
    iterator.read_to_end(&mut written)?;
    Ok(written)
}

/// A `struct order` of `bpf/selection.c`.
fn order(action: Action, sockets: OpenSockets, cc: &str, otherwise: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ORDER_BYTES);
    bytes.extend((action as u32).to_ne_bytes());
    bytes.extend(u32::from(sockets.port.unwrap_or(0)).to_ne_bytes());
    bytes.extend(u32::from(sockets.to.bits).to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(sockets.to.address);
    bytes.extend(name_field(cc));
    bytes.extend(name_field(otherwise));
    bytes.extend([0; 16]);
    bytes
}

/// A name as the kernel has it, with zeros after it.
pub(crate) fn name_field(name: &str) -> [u8; NAME_BYTES] {
    let mut field = [0; NAME_BYTES];
    let length = name.len().min(NAME_BYTES - 1);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
    field
}

fn pin(object: &mut Object, shared: &Place, name: &str) -> Result<(), SystemError> {
    let map = object.maps_mut().find(|map| map.name() == name);
    let mut map = map.ok_or_else(|| shared.wrong("pin", name, "the object has no such map"))?;
    map.pin(shared.path(name)).map_err(|error| shared.wrong("pin", name, error))
}

fn program<'o>(object: &'o Object, name: &str) -> Result<ProgramMut<'o>, SelectionError> {
    let found = object.progs_mut().find(|program| program.name() == name);
    let missing = || SelectionError::Refused { reason: format!("it has no program `{name}`"), log: String::new() };
    found.ok_or_else(missing)
}

fn wrong(doing: &str, cc: &str, error: io::Error) -> SelectionError {
    SystemError::new(format!("{doing} `{cc}`"), error).into()
}

static OBJECT: Result<&[u8], &str> = include!(concat!(env!("OUT_DIR"), "/selection.rs"));
const FIRST: [u8; 4] = [0; 4];
/// Bytes of a `struct order`.
const ORDER_BYTES: usize = 80;
