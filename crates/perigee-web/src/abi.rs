//! The exports of the module: memory, and one call with a request and an answer in JSON.
//!
//! Numbers in an answer that are called `at` are addresses: of cells of doubles, of the buffers of a column, of a file. They are valid
//! until the next call. `web/perigee.js` is the only user.

use std::cell::RefCell;
use std::ffi::{c_void, CStr};

use perigee_results::Buffers;
use serde_json::{json, Value};

use crate::engine::Engine;
use crate::memory;
use crate::problem::{errors_json, Kind, Problem};
use crate::request::Request;
use crate::running::{Curve, Live, Progress};

/// Bytes for the script to read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    at: *const u8,
    count: usize,
}

/// State of the one instance: a page has no threads in it.
struct Instance {
    engine: Engine,
    /// Byte buffers of the last answer.
    bytes: Vec<Vec<u8>>,
    cells: Vec<Vec<f64>>,
    answer: String,
    about: Bytes,
}

thread_local! {
    static INSTANCE: RefCell<Instance> = RefCell::new(Instance::begin());
    static LAST_WORDS: RefCell<(String, Bytes)> = const { RefCell::new((String::new(), NOTHING)) };
}

const NOTHING: Bytes = Bytes { at: std::ptr::null(), count: 0 };

/// Memory for `count` bytes, which [`perigee_call`] takes over, or a file that it is given.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_alloc(count: usize) -> *mut u8 {
    Box::leak(vec![0_u8; count].into_boxed_slice()).as_mut_ptr()
}

/// Carries out a request, `count` bytes of JSON at `at`, and returns the address of the answer's.
///
/// # Safety
/// `at` is from [`perigee_alloc`] with this count, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_call(at: *mut u8, count: usize) -> *const Bytes {
    // SAFETY: the caller's promise.
    let request = unsafe { taken(at, count) };
    INSTANCE.with_borrow_mut(|instance| instance.call(&request))
}

/// The message of the panic that ended the instance; empty: there was none.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_last_words() -> *const Bytes {
    LAST_WORDS.with_borrow_mut(|(words, about)| {
        *about = Bytes { at: words.as_ptr(), count: words.len() };
        std::ptr::from_ref(about)
    })
}

/// Whether memory was refused, which ends the instance.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_was_refused() -> bool {
    memory::was_refused()
}

/// # Safety
/// As of [`perigee_call`].
unsafe fn taken(at: *mut u8, count: usize) -> Vec<u8> {
    // SAFETY: `perigee_alloc` leaked a box of this size.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, count)) }.into_vec()
}

impl Instance {
    fn begin() -> Self {
        if cfg!(target_arch = "wasm32") {
            std::panic::set_hook(Box::new(|panic| {
                LAST_WORDS.with_borrow_mut(|(words, _)| *words = panic.to_string());
            }));
        }
        Self { engine: Engine::default(), bytes: Vec::new(), cells: Vec::new(), answer: String::new(), about: NOTHING }
    }

    fn call(&mut self, request: &[u8]) -> *const Bytes {
        (self.bytes, self.cells) = (Vec::new(), Vec::new());
        let answer = match serde_json::from_slice(request) {
            Ok(request) => self.carry_out(&Request(&request)),
            Err(error) => Err(Problem::new(Kind::Request, error.to_string())),
        };
        self.answer = match answer {
            Ok(answer) => json!({"ok": answer}).to_string(),
            Err(problem) => json!({"problem": problem.to_json()}).to_string(),
        };
        self.about = Bytes { at: self.answer.as_ptr(), count: self.answer.len() };
        &raw const self.about
    }

    fn carry_out(&mut self, request: &Request<'_>) -> Result<Value, Problem> {
        let handle = || request.small("handle");
        match request.text("do")? {
            "catalogue" => Ok(self.engine.catalogue()),
            "limits" => {
                let limits = request.limits(self.engine.limits());
                self.engine.set_limits(limits);
                Ok(Value::Null)
            }
            "file" => {
                let bytes = given(request)?;
                self.engine.add_file(request.text("name")?, bytes);
                Ok(Value::Null)
            }
            "algorithm" => self.algorithm(request),
            "check" => Ok(json!({"errors": errors_json(&self.engine.check(&request.asked()?))})),
            "describe" => self.engine.describe(&request.asked()?, request.run()?, request.most()),
            "start" => Ok(json!(self.engine.start(&request.asked()?, request.run()?)?)),
            "advance" => {
                let until = request.seconds("until");
                let Progress { t_s, is_done, share, events } =
                    self.engine.advance(handle()?, until, request.optional("events"))?;
                Ok(json!({"t": t_s, "done": is_done, "share": share, "events": events}))
            }
            "live" => {
                let Live { flows, links } = self.engine.live(handle()?, request.seconds("after"))?;
                Ok(json!({"flows": self.curves(flows, &Live::OF_FLOW), "links": self.curves(links, &Live::OF_LINK)}))
            }
            "finish" => {
                let tables = self.engine.finish(handle()?)?;
                let tables: Vec<_> =
                    tables.into_iter().map(|(name, rows)| json!({"name": name, "rows": rows})).collect();
                let captures = self.engine.captures(handle()?)?.iter();
                let captures: Vec<_> = captures.map(|one| (one.node.to_string(), one.pcapng.clone())).collect();
                let captures = captures.into_iter().map(|(node, file)| json!({"node": node, "file": self.lend(file)}));
                let captures = captures.collect::<Value>();
                Ok(json!({"tables": tables, "captures": captures}))
            }
            "arrow" => {
                let file = self.engine.arrow(handle()?, request.text("table")?)?;
                Ok(self.lend(file))
            }
            "columns" => {
                let columns = self.engine.columns(handle()?, request.text("table")?)?;
                let column = |(name, kind, Buffers { validity, offsets, data })| {
                    let validity = validity.map(|bytes| self.lend(bytes));
                    let offsets = offsets.map(|bytes| self.lend(bytes));
                    json!({"name": name, "kind": kind, "validity": validity, "offsets": offsets, "data": self.lend(data)})
                };
                Ok(columns.into_iter().map(column).collect())
            }
            "free" => {
                self.engine.free(handle()?);
                Ok(Value::Null)
            }
            other => Err(Problem::new(Kind::Request, format!("no request `{other}`"))),
        }
    }

    /// An author's module that the script has loaded into this instance's memory and table.
    fn algorithm(&mut self, request: &Request<'_>) -> Result<Value, Problem> {
        let address = |key: &str| Ok::<_, Problem>(request.number(key)? as usize as *const c_void);
        let (layout, algorithm) = (address("layout")?, address("algorithm")?);
        let symbol = |name: &CStr| {
            let at = if name == c"perigee_cc_layout" { layout } else { algorithm };
            (!at.is_null()).then_some(at)
        };
        // SAFETY: the script has loaded it, and it stays as long as the instance; an address that is not one of those that
        // `tcp.h` exports reads this instance's own memory, or ends the instance.
        let admitted = unsafe { perigee_cc::admit(&symbol) };
        let admitted = admitted.map_err(|refusal| Problem::new(Kind::Algorithm, refusal.to_string()))?;
        let module = given(request)?;
        Ok(self.engine.add_algorithm(request.text("file")?, admitted, module))
    }

    /// Keeps bytes until the next call, and says where they are.
    fn lend(&mut self, bytes: Vec<u8>) -> Value {
        let about = json!({"at": bytes.as_ptr() as usize, "count": bytes.len()});
        self.bytes.push(bytes);
        about
    }

    fn curves(&mut self, curves: Vec<Curve>, columns: &[&str]) -> Value {
        let curve = |Curve { name, leg, cells }: Curve| {
            let about = json!({"name": &*name, "leg": leg, "columns": columns, "at": cells.as_ptr() as usize, "count": cells.len()});
            self.cells.push(cells);
            about
        };
        curves.into_iter().map(curve).collect()
    }
}

/// The bytes that the script has written for this request.
fn given(request: &Request<'_>) -> Result<Vec<u8>, Problem> {
    let (at, count) = (request.number("at")? as usize, request.number("count")? as usize);
    // SAFETY: the script has them from `perigee_alloc`, and uses them no more.
    Ok(unsafe { taken(at as *mut u8, count) })
}
