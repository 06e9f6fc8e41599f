//! The Python module `perigee._core`: study text in, Arrow tables out, the interpreter's lock released. No logic.

mod callback;
mod captures;
mod catalog;
mod certificates;
mod confined;
mod emulate;
mod errors;
mod files;
mod histogram;
mod json;
mod kernel;
mod live;
mod observe;
mod orbit;
mod own_flow;
mod probe;
mod quantity;
mod reach;
mod sample;
mod several;
mod signals;
mod tables;
mod trace;

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use perigee_cc_load::{Compiled, Loader};
use perigee_emu::{Capacity, CaptureError, CaptureFiles, ExecError};
use perigee_link::DelaySpec;
use perigee_results::Standing;
use perigee_sim::{RunResult, SimError};
use perigee_study::{plan_json, setup_json, without_effect, Live, Overrides, Part, Run, RunLink, Study};
use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use callback::Callback;
use confined::{compiled, libraries, Library, Note};
use errors::{fault_error, input_or_root_error, run_error, study_error};
use files::{Disk, Foreign};
use live::{LiveRun, LiveSettings};
use own_flow::OwnFlow;
use reach::Reach;
use tables::{contents, named, streams, to_python};

/// Upper bound of a part of a run's results, see `perigee_study::Room`: `memory` and `file` in bytes.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
struct ResultPart {
    name: &'static str,
    rows: u64,
    memory: u64,
    file: u64,
}

/// The outlook of one emulated run, see `perigee_emu::Outlook`.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
struct RunOutlook {
    load: f64,
    packets_per_s: f64,
    packets: f64,
    least_s: f64,
    most_s: f64,
}

/// The outlook of emulated runs before they begin: the cost of a packet in both TCPs, on each link and in a flow over QUIC (zero without
/// any), the number of rounds, and the runs of the first.
#[pyclass(frozen, get_all, module = "perigee._core")]
struct Outlook {
    ends_us: f64,
    hop_us: f64,
    quic_us: f64,
    rounds: u32,
    runs: Vec<RunOutlook>,
}

/// A study with all its settings resolved, read once and run from any thread.
#[pyclass(frozen, module = "perigee._core")]
struct Plan {
    study: String,
    /// The study as it was given, with its settings, for a fault that is to be reported with it.
    given: String,
    runs: Vec<Run>,
    live: Live,
    warnings: String,
    sources: Vec<(&'static str, Vec<u8>)>,
    compiled: Vec<Compiled>,
    /// Whether this process was made to run the authors' algorithms of the plan.
    confined: bool,
}

/// A node of an emulated run, and name and text of each of its sysctls.
type HostSysctls = (String, Vec<(&'static str, String)>);

#[pymethods]
impl Plan {
    /// Reads a study and lays out its runs. `path` names it in errors; profiles and recordings are looked for in the
    /// folders of `search`, and `headers` is the folder of `tcp.h`, for authors' algorithms. Where paths are `real`, the
    /// runs have no links.
    ///
    /// Authors' algorithms are compiled and described, and nothing of them is executed: `run` of the engine `sim` refuses
    /// them. In a process that was made to run them, `confined` has what `compiled` of the same plan gave, and the note; without a note
    /// they are described there too, for `OwnFlow`.
    ///
    /// Where the `settings` or the whole `study` is somebody else's (`foreign`), they name no files but those that come
    /// with Perigee, and no code.
    #[new]
    #[pyo3(signature = (text, path, settings, reduced, search, headers, real=false, confined=None, foreign=""))]
    #[allow(clippy::needless_pass_by_value, reason = "lists from Python arrive as owned vectors")]
    #[allow(clippy::too_many_arguments, reason = "called by Python, by keyword")]
    fn new(
        py: Python<'_>,
        text: &str,
        path: &str,
        settings: Vec<String>,
        reduced: bool,
        search: Vec<PathBuf>,
        headers: PathBuf,
        real: bool,
        confined: Option<(Vec<Library>, Option<PyRef<'_, Note>>)>,
        foreign: &str,
    ) -> PyResult<Self> {
        let foreign = Foreign::of(foreign)?;
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let is_confined = matches!(confined, Some((_, Some(_))));
        let loader = match confined {
            Some((libraries, Some(note))) => Loader::confined(compiled(libraries), note.0),
            Some((libraries, None)) => Loader::given(compiled(libraries)),
            None => Loader::new(headers),
        };
        let mut disk = Disk { foreign, search: &search, folder, loader, raised: None };
        // Reading takes as long as its author wants; other threads go on meanwhile.
        let read = py.detach(|| {
            let study = Study::parse(text, path)?;
            let overrides = Overrides::new(&settings, reduced)?;
            let runs =
                if real { study.plan_without_links(&overrides, &mut disk) } else { study.plan(&overrides, &mut disk) };
            runs.and_then(|runs| Ok((study.name().to_owned(), runs, study.live(&overrides)?)))
        });
        if let Some(raised) = disk.raised {
            return Err(raised);
        }
        let (study, runs, live) = read.map_err(study_error)?;
        let sources = disk.loader.sources().map(|(name, text)| (name, text.to_vec())).collect();
        Ok(Self {
            study,
            given: errors::given(text, path, &settings, reduced),
            runs,
            live,
            warnings: disk.loader.warnings().to_owned(),
            sources,
            compiled: disk.loader.compiled(),
            confined: is_confined,
        })
    }

    /// The authors' files as a process that is to run them takes them: of each its path, its text, and the library.
    fn compiled(&self) -> Vec<Library> {
        libraries(self.compiled.clone())
    }

    /// The number and the name of each flow of a run with an author's algorithm, and the algorithm's file; none: the run
    /// executes nothing that is not part of this program.
    fn own_flows(&self, index: usize) -> PyResult<Vec<(u32, String, PathBuf)>> {
        Ok(self.at(index)?.authored_flows())
    }

    /// The flows of a run that processes of their own carry on `emu`, by number, see `OwnFlow`.
    fn apart(&self, index: usize) -> PyResult<Vec<u32>> {
        Ok(perigee_emu::apart(self.at(index)?))
    }

    /// One of these, loaded into this process.
    fn own_flow(&self, index: usize, number: u32, note: Py<Note>) -> PyResult<OwnFlow> {
        OwnFlow::new(self.at(index)?, number, &self.compiled, note)
    }

    /// Differs where any setting of a run, any byte of a recording or an author's algorithm differs.
    fn fingerprint(&self, index: usize) -> PyResult<(u64, u64)> {
        let run = self.at(index)?;
        Ok((run.scenario.fingerprint, run.seed))
    }

    /// The study's name.
    #[getter]
    fn study(&self) -> &str {
        &self.study
    }

    /// Returns the compiler's warnings about authors' algorithms.
    #[getter]
    fn warnings(&self) -> &str {
        &self.warnings
    }

    /// Whether the simulator carries packets of any run on the slow path only.
    #[getter]
    fn is_plain(&self) -> bool {
        self.runs.iter().any(|run| run.scenario.is_plain)
    }

    /// The text of each author's algorithm, by the name that results have for it.
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sources = PyDict::new(py);
        for (name, text) in &self.sources {
            sources.set_item(name, PyBytes::new(py, text))?;
        }
        Ok(sources)
    }

    /// Points and rounds, see `perigee_study::plan_json`.
    fn laid_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::values(py, &plan_json(&self.runs))
    }

    /// The seed of the run of this index.
    fn seed(&self, index: usize) -> PyResult<u64> {
        Ok(self.at(index)?.seed)
    }

    /// The room that results take at the most, of each run of the first round: its parts, the largest first.
    fn rooms(&self) -> Vec<Vec<ResultPart>> {
        let part = |Part { name, rows, memory, file }: Part| ResultPart { name, rows, memory, file };
        self.points().map(|run| run.scenario.room().parts.into_iter().map(part).collect()).collect()
    }

    /// Links, hosts and flows of all points in words, and their networks, see `perigee_study::setup_json`.
    fn setup<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::values(py, &setup_json(&self.runs))
    }

    /// Name, slots without a path and all slots of each direction of a link over computed paths, in the first `span_s` seconds
    /// of a run.
    fn slots_without_path(&self, py: Python<'_>, index: usize, span_s: f64) -> PyResult<Vec<(String, u64, u64)>> {
        let run = self.at(index)?;
        let until = perigee_units::Time::from_secs_f64(span_s).min(run.scenario.time_limit);
        let of_link = |link: &RunLink| {
            let DelaySpec::Orbit(orbit) = &link.spec.delay else { return None };
            let (without, slots) = orbit.slots_without_path(run.seed, until);
            Some((link.name.to_string(), without, slots))
        };
        Ok(py.detach(|| run.scenario.links.iter().filter_map(of_link).collect()))
    }

    /// The connections of a run's bulk transfers, and the socket buffers that bound their windows.
    fn reaches(&self, index: usize) -> PyResult<Vec<Reach>> {
        Ok(self.at(index)?.scenario.reaches().into_iter().map(Reach::from).collect())
    }

    /// Notes on settings without effect at the first points, at most `most` of them.
    fn without_effect(&self, most: usize) -> Vec<String> {
        without_effect(self.points().take(most).map(|run| &*run.scenario))
    }

    /// Which real hosts stand for the nodes, and when runs begin.
    fn live(&self) -> LiveSettings {
        (&self.live).into()
    }

    /// A run, for an engine that asks other programs to carry it out.
    fn live_run(&self, index: usize) -> PyResult<LiveRun> {
        Ok(self.at(index)?.into())
    }

    /// Raises where `emu` cannot carry out the runs here.
    fn check_emulated(&self) -> PyResult<()> {
        self.points().try_for_each(|run| perigee_emu::check(run).map_err(|error| unfit_for_emulation(&error)))
    }

    /// The sysctls that the nodes of a run have on `emu`, read back from the kernel: of each node name and text of each.
    fn emulated_sysctls(&self, index: usize) -> PyResult<Vec<HostSysctls>> {
        let hosts = perigee_emu::host_sysctls(self.at(index)?).map_err(|error| unfit_for_emulation(&error))?;
        Ok(hosts.into_iter().map(|host| (host.node, host.values)).collect())
    }

    /// Measures what moving packets costs this machine, or takes it as given: of both TCPs and of a link, in us.
    #[pyo3(signature = (cost_us = None))]
    fn outlook_emulated(&self, py: Python<'_>, cost_us: Option<(f64, f64)>) -> PyResult<Outlook> {
        let us = |us: f64| perigee_units::Time::from_secs_f64(us * 1e-6);
        let capacity = if let Some((ends, hop)) = cost_us {
            Ok(Capacity { ends: us(ends), hop: us(hop), quic: us(0.0) })
        } else {
            let mut flows = self.points().flat_map(|run| &run.scenario.flows);
            let has_quic = flows.any(|flow| flow.traffic.quic().is_some());
            py.detach(|| Capacity::measure(has_quic))
        };
        let capacity = capacity.map_err(|error| unfit_for_emulation(&error))?;
        let in_us = |time: perigee_units::Time| time.as_nanos() as f64 * 1e-3;
        let runs = self.points().map(|run| {
            let perigee_emu::Outlook { load, packets_per_s, packets, least, most } = capacity.outlook(run);
            RunOutlook { load, packets_per_s, packets, least_s: least.as_secs_f64(), most_s: most.as_secs_f64() }
        });
        Ok(Outlook {
            ends_us: in_us(capacity.ends),
            hop_us: in_us(capacity.hop),
            quic_us: in_us(capacity.quic),
            rounds: self.runs.last().map_or(0, |run| run.round + 1),
            runs: runs.collect(),
        })
    }

    /// Carries out a run, on the engine `sim` or `emu`. `progress` is called with the share done, the time of the run in
    /// s and the bytes that each of its first flows received, and returns whether to continue. `emu` writes captures to
    /// the folder `captures`, as `run-INDEX-NODE.pcapng`. `carriers` are for each flow of `apart` its number and a socket whose other
    /// end is `OwnFlow.carry`'s, in another process, which has the flow's tables; the sockets are taken over.
    ///
    /// Returns the tables that have rows, each an Arrow IPC stream by its name, and qlogs and the captures of `sim` by file name;
    /// `None` if `progress` stopped it.
    #[pyo3(signature = (index, engine, captures, progress, carriers=Vec::new()))]
    #[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        engine: &str,
        captures: PathBuf,
        progress: &Bound<'py, PyAny>,
        carriers: Vec<(u32, i32)>,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyDict>)>> {
        // SAFETY: the caller gives them away.
        let owned = |(number, socket)| (number, unsafe { OwnedFd::from_raw_fd(socket) });
        let carriers: BTreeMap<u32, OwnedFd> = carriers.into_iter().map(owned).collect();
        let run = self.at(index)?;
        let mut callback = Callback::new(progress.clone().unbind());
        let done = py.detach(|| {
            let mut tell = |standing: &Standing| callback.standing(standing);
            if engine == "emu" {
                let files = CaptureFiles { folder: &captures, prefix: &format!("run-{index:06}-") };
                let result = perigee_emu::run_beside(run, &files, carriers, &mut tell);
                let result = result.map(|(tables, qlogs)| (streams(&tables), named(qlogs)));
                return result.map_err(|error| match error {
                    perigee_emu::RunError::Cancelled => None,
                    perigee_emu::RunError::Capture(CaptureError { path, error }) => {
                        let said = error.to_string();
                        Some(PyOSError::new_err((error.raw_os_error(), said, path)))
                    }
                    error if error.is_wrong_input() => Some(unfit_for_emulation(&error)),
                    error => Some(run_error(&error)),
                });
            }
            let own = self.confined.then(|| run.numbered());
            let result = perigee_sim::run(own.as_ref().unwrap_or(run), &mut tell)
                .map(|result| (streams(&result.tables), files_of(result)));
            result.map_err(|error| match error {
                SimError::Cancelled => None,
                error @ (SimError::NoWay { .. }
                | SimError::NotLoaded { .. }
                | SimError::NotOverQuic { .. }
                | SimError::NoQuic(_)) => Some(run_error(&error)),
                error @ SimError::Fault { .. } => Some(fault_error(&error, &self.given)),
            })
        });
        callback.finish()?;
        let (tables, captured) = match done {
            Ok(done) => done,
            Err(None) => return Ok(None),
            Err(Some(error)) => return Err(error),
        };
        Ok(Some((to_python(py, tables)?, contents(py, captured)?)))
    }

    /// The varied keys of a run, as its tables have them.
    fn point_text(&self, index: usize) -> PyResult<&str> {
        Ok(&self.at(index)?.scenario.point)
    }

    /// Simulates runs in the order given until `for_s` has passed, see `several::simulate`: how many of them, and their tables
    /// as `run` gives them.
    fn run_several<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<usize>,
        for_s: f64,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<(usize, Bound<'py, PyDict>)> {
        let runs = indices.into_iter().map(|index| self.at(index)).collect::<PyResult<Vec<_>>>()?;
        let longest = std::time::Duration::try_from_secs_f64(for_s).unwrap_or_default();
        let mut callback = Callback::new(progress.clone().unbind());
        let (done, tables) = py.detach(|| {
            let (done, tables) = several::simulate(runs.into_iter(), longest, &mut |runs| callback.progress(runs));
            (done, streams(&tables))
        });
        callback.finish()?;
        Ok((done, to_python(py, tables)?))
    }
}

impl Plan {
    fn at(&self, index: usize) -> PyResult<&Run> {
        self.runs.get(index).ok_or_else(|| PyIndexError::new_err(format!("there is no run {index}")))
    }

    /// The runs of the first round, in which each point is once.
    fn points(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().take_while(|run| run.round == 0)
    }
}

/// The captures of nodes and the logs of QUIC connections of a run, by the names of their files.
fn files_of(result: RunResult) -> Vec<(String, Vec<u8>)> {
    let captures = result.captures.into_iter().map(|one| (format!("{}.pcapng", one.node), one.pcapng));
    captures.chain(named(result.qlogs)).collect()
}

fn unfit_for_emulation(error: &perigee_emu::RunError) -> PyErr {
    let needs_root = matches!(error, perigee_emu::RunError::Machine(ExecError::NotPermitted));
    input_or_root_error(&format!("--engine emu: {error}"), needs_root)
}

/// The TCP settings that are sysctls of Linux: words for reports, and the name in `net.ipv4`.
#[pyfunction]
fn tcp_sysctls() -> Vec<(&'static str, &'static str)> {
    let sysctls = perigee_settings::SETTINGS.iter().filter_map(|setting| match setting.kernel {
        perigee_settings::Kernel::Sysctl(sysctl) => Some((setting.report, sysctl.name)),
        perigee_settings::Kernel::Other(_) | perigee_settings::Kernel::Nothing => None,
    });
    sysctls.collect()
}

/// The compiled core of perigee.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::captures::{analyze_captures, CaptureCounts};
    #[pymodule_export]
    use super::catalog::{
        algorithm_of, algorithms, browser_module, check_of, compilers_are_confined, host_systems, suggestion,
        Algorithm, Check, HostSystem, Parameter,
    };
    #[pymodule_export]
    use super::confined::{
        confine, confine_program, lines_of, note_bytes, noted, trial_events, where_signal, Note, Noted, Trial,
    };
    #[pymodule_export]
    use super::emulate::{
        emu_clean, link_size, run_behind, scratch_prefix, DirectionSample, EndedProcess, LinkReport, ProgramReport,
        Undelivered,
    };
    #[pymodule_export]
    use super::histogram::Histogram;
    #[pymodule_export]
    use super::kernel::{
        cc_forget, cc_load, cc_memory, cc_remember, cc_sockets, cc_status, cc_unload, Loaded, Unloaded,
    };
    #[pymodule_export]
    use super::live::{LiveFlow, LiveRun, LiveSettings};
    #[pymodule_export]
    use super::observe::{observed, Measure};
    #[pymodule_export]
    use super::orbit::{orbit_places, orbit_slots, Orbit, OrbitSlot};
    #[pymodule_export]
    use super::own_flow::{confine_carrier, OwnFlow};
    #[pymodule_export]
    use super::probe::{probe_once, probe_serve};
    #[pymodule_export]
    use super::quantity::quantity;
    #[pymodule_export]
    use super::reach::Reach;
    #[pymodule_export]
    use super::sample::sample_profile;
    #[pymodule_export]
    use super::signals::end_at_second_signal;
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::{tcp_sysctls, Outlook, Plan, ResultPart, RunOutlook};
    #[pymodule_export]
    use crate::certificates::{authority, signed};
}
