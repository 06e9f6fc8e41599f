//! The module's memory: an allocator that counts, and refuses what exceeds the limit.
//!
//! A refused allocation ends the instance with a trap; the script reads [`was_refused`] afterwards, which needs no allocation.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Bytes allocated; 0 where the allocator is not this module's.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Relaxed)
}

/// Refuses allocations beyond `bytes` in all.
pub(crate) fn limit(bytes: u64) {
    LIMIT.store(usize::try_from(bytes).unwrap_or(usize::MAX), Relaxed);
}

/// Whether an allocation was refused.
pub(crate) fn was_refused() -> bool {
    REFUSED.load(Relaxed)
}

#[cfg(target_arch = "wasm32")]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::Ordering::Relaxed;

    use super::{IN_USE, LIMIT, REFUSED};

    struct Counting;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    impl Counting {
        /// Counts `bytes` more, if the limit allows them.
        fn take(bytes: usize) -> bool {
            let used = IN_USE.load(Relaxed);
            match used.checked_add(bytes).filter(|total| *total <= LIMIT.load(Relaxed)) {
                Some(total) => IN_USE.store(total, Relaxed),
                None => REFUSED.store(true, Relaxed),
            }
            !REFUSED.load(Relaxed)
        }

        fn give_back(bytes: usize) {
            IN_USE.store(IN_USE.load(Relaxed) - bytes, Relaxed);
        }

        /// Notes that the browser gave none.
        fn noted(at: *mut u8) -> *mut u8 {
            if at.is_null() {
                REFUSED.store(true, Relaxed);
            }
            at
        }
    }

    // SAFETY: `System` does the work; what is refused is null, as the trait asks.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if !Self::take(layout.size()) {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller's layout.
            Self::noted(unsafe { System.alloc(layout) })
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            Self::give_back(layout.size());
            // SAFETY: the caller's pointer and layout.
            unsafe { System.dealloc(at, layout) }
        }

        unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            if !Self::take(bytes) {
                return std::ptr::null_mut();
            }
            Self::give_back(layout.size());
            // SAFETY: the caller's pointer, layout and size.
            Self::noted(unsafe { System.realloc(at, layout, bytes) })
        }
    }
}
