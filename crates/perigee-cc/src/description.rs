//! Describes a library without loading it, since a load executes the library's constructors.
//!
//! The tables that `CC_REGISTER` writes are data; their addresses are relocations, which this module resolves itself.

use std::mem::offset_of;

use crate::algorithm::{check, is_our_layout, About, Algorithm, Refusal, Slots};
use crate::parameter::Param;
use crate::raw::{Ops, RawAlgorithm, RawParam, RawWatch, RawWatched};
use crate::sock::{MAX_PARAMS, MAX_WATCHED};
use crate::watched::Watched;

/// The memory image of a library. Addresses are the library's own.
pub trait Image {
    /// Address of an exported symbol.
    fn symbol(&self, name: &str) -> Option<u64>;
    /// `count` bytes from an address on.
    fn bytes(&self, address: u64, count: usize) -> Option<&[u8]>;
    /// The pointer stored at an address once the library is loaded; 0: a null pointer. A pointer out of the library has no
    /// bytes.
    fn pointer(&self, address: u64) -> Option<u64>;
}

/// The algorithm of a library: its name, parameters and sizes, and no callbacks.
///
/// Its texts live as long as the program, as those of one that is loaded.
///
/// # Errors
/// As [`crate::admit`], and where its tables cannot be read.
pub fn describe(image: &dyn Image) -> Result<Algorithm, Refusal> {
    let (Some(layout), Some(exported)) = (image.symbol("perigee_cc_layout"), image.symbol("perigee_cc_algorithm"))
    else {
        return Err(Refusal::Unregistered);
    };
    let unreadable = |what| Refusal::Unreadable { what };
    let layout = u64_at(image, layout).ok_or(unreadable("layout"))?;
    if !is_our_layout(layout) {
        return Err(Refusal::OtherLayout);
    }
    let at = image.pointer(exported).ok_or(unreadable("registration"))?;
    let ops = at.saturating_add(offset_of!(RawAlgorithm, ops) as u64);
    let about = About {
        name: name(image, ops).ok_or(unreadable("name"))?,
        title: text(image, at, offset_of!(RawAlgorithm, title)).ok_or(unreadable("title"))?,
        params: params(image, at).ok_or(unreadable("list of parameters"))?,
        state_bytes: size(image, at, offset_of!(RawAlgorithm, state_bytes)).ok_or(unreadable("size of state"))?,
        storage_bytes: size(image, at, offset_of!(RawAlgorithm, storage_bytes)).ok_or(unreadable("size of storage"))?,
        watched: watched(image, at).ok_or(unreadable("list of watched values"))?,
        slots: slots(image, ops).ok_or(unreadable("list of callbacks"))?,
        flags: u32_at(image, ops.saturating_add(offset_of!(Ops, flags) as u64)).ok_or(unreadable("flags"))?,
    };
    check(&about)?;
    Ok(Algorithm::described(about))
}

fn name(image: &dyn Image, ops: u64) -> Option<String> {
    let name = image.bytes(ops.checked_add(offset_of!(Ops, name) as u64)?, NAME_BYTES)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some(std::str::from_utf8(&name[..end]).ok()?.to_owned())
}

fn slots(image: &dyn Image, ops: u64) -> Option<Slots> {
    let is_there = |offset: usize| Some(image.pointer(ops.checked_add(offset as u64)?)? != 0);
    Some(Slots {
        ssthresh: is_there(offset_of!(Ops, ssthresh))?,
        cong_avoid: is_there(offset_of!(Ops, cong_avoid))?,
        cong_control: is_there(offset_of!(Ops, cong_control))?,
        undo_cwnd: is_there(offset_of!(Ops, undo_cwnd))?,
    })
}

fn params(image: &dyn Image, algorithm: u64) -> Option<Vec<Param>> {
    let first = image.pointer(algorithm.checked_add(offset_of!(RawAlgorithm, params) as u64)?)?;
    let count = u32_at(image, algorithm.checked_add(offset_of!(RawAlgorithm, param_count) as u64)?)?;
    let rows = (0..u64::from(count)).map(|row| first.checked_add(row * size_of::<RawParam>() as u64));
    let read = |at: u64| {
        let number = |offset: usize| u64_at(image, at.checked_add(offset as u64)?);
        Some(Param {
            name: text(image, at, offset_of!(RawParam, name))?,
            unit: text(image, at, offset_of!(RawParam, unit))?,
            default: number(offset_of!(RawParam, fallback))?,
            min: number(offset_of!(RawParam, low))?,
            max: number(offset_of!(RawParam, high))?,
            doc: text(image, at, offset_of!(RawParam, doc))?,
        })
    };
    (count as usize <= MAX_PARAMS).then_some(())?;
    rows.map(|row| read(row?)).collect()
}

fn watched(image: &dyn Image, algorithm: u64) -> Option<Vec<Watched>> {
    let watch = image.pointer(algorithm.checked_add(offset_of!(RawAlgorithm, watch) as u64)?)?;
    let count = u32_at(image, watch.checked_add(offset_of!(RawWatch, count) as u64)?)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let first = image.pointer(watch.checked_add(offset_of!(RawWatch, values) as u64)?)?;
    let read = |row: u64| {
        let at = first.checked_add(row * size_of::<RawWatched>() as u64)?;
        let text = |offset: usize| text(image, at, offset);
        Some(Watched::new(
            text(offset_of!(RawWatched, name))?,
            text(offset_of!(RawWatched, unit))?,
            text(offset_of!(RawWatched, doc))?,
        ))
    };
    (count as usize <= MAX_WATCHED).then_some(())?;
    (0..u64::from(count)).map(read).collect()
}

/// The number whose address is at `base + offset`.
fn size(image: &dyn Image, base: u64, offset: usize) -> Option<u32> {
    u32_at(image, image.pointer(base.checked_add(offset as u64)?)?)
}

/// The text whose address is at `base + offset`.
fn text(image: &dyn Image, base: u64, offset: usize) -> Option<&'static str> {
    let at = image.pointer(base.checked_add(offset as u64)?)?;
    let mut text = Vec::new();
    for place in 0..LONGEST_TEXT {
        match image.bytes(at.checked_add(place)?, 1)?[0] {
            0 => return Some(String::from_utf8_lossy(&text).into_owned().leak()),
            byte => text.push(byte),
        }
    }
    None
}

fn u64_at(image: &dyn Image, address: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(image.bytes(address, 8)?.try_into().ok()?))
}

fn u32_at(image: &dyn Image, address: u64) -> Option<u32> {
    Some(u32::from_ne_bytes(image.bytes(address, 4)?.try_into().ok()?))
}

/// Bytes of the name in `struct tcp_congestion_ops`, with its zero.
const NAME_BYTES: usize = 16;
/// Longer than any title or explanation, bytes.
const LONGEST_TEXT: u64 = 4096;
