//! Writes lines of accounting, each an object of JSON: what each subscriber has used by each rule in an interval, and connections
//! that ended.
//!
//! A thread of its own writes them, so that a slow or full disk delays no connection. What it cannot write is counted, and the next line
//! that can be written says how many were lost; what lines of use had is part of the next ones. At its end the process that has replaced
//! this one takes over what is left of both, or the log has it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use perigee_text::StrictError;
use perigee_units::Time;
use serde_json::{Map, Value};

use crate::config::Accounting;
use crate::error::ServiceError;
use crate::host::clock::{monotonic, seconds_since_1970};
use crate::host::lines::ends_within_line;
use crate::host::threads::start_thread;
use crate::shared::counts::Count;
use crate::shared::log::{quoted, Log};
use crate::shared::records::{Destination, ForWriter, Records};
use crate::shared::stats::Stats;
use crate::shared::usage::Use;

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct AccountWriter {
    messages: SyncSender<ForWriter>,
    goes_on: Receiver<()>,
    thread: JoinHandle<Unwritten>,
    log: Log,
}

/// Lines that a process could not write until its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unwritten {
    /// Lines of use.
    pub(crate) lines: Vec<String>,
    /// How many others there were that no line has told.
    pub(crate) lost: u64,
}

/// The state of the thread.
struct Writing {
    accounting: Accounting,
    file: Option<File>,
    stats: Arc<Stats>,
    log: Log,
    /// When the interval began, and when it ends.
    began: Time,
    due: Time,
    /// Lines that were not written, and are not told of yet, as the counter has them.
    told: u64,
    /// Lines of use of processes that this one has replaced.
    kept: Vec<String>,
    /// Whether the last line was written in part only, where the file does not show it.
    is_torn: bool,
    /// Whether it was not written.
    fails: bool,
    /// Tells that another line begins, and by its end that there are no more.
    goes_on: SyncSender<()>,
}

impl AccountWriter {
    /// Starts the thread.
    pub(crate) fn start(
        accounting: Accounting,
        file: Option<File>,
        (records, messages): (&Records, Receiver<ForWriter>),
        stats: Arc<Stats>,
        log: Log,
    ) -> Result<Self, ServiceError> {
        let began = monotonic();
        let due = began + accounting.every;
        let (goes_on, lines) = sync_channel(1);
        let writing = Writing {
            accounting,
            file,
            stats,
            log: log.clone(),
            began,
            due,
            told: 0,
            kept: Vec::new(),
            is_torn: false,
            fails: false,
            goes_on,
        };
        let thread = start_thread("pep-accounts", move || writing.run(&messages));
        let thread = thread.map_err(ServiceError::system("accounting"))?;
        Ok(Self { messages: records.to_writer.clone(), goes_on: lines, thread, log })
    }

    /// Waits for the last lines, however many there are and busy the machine is, but not for a disk that stops at one. What could not be
    /// written is another process's, if `hand_over` says so, or else the log has it.
    pub(crate) fn finish(self, hand_over: impl FnOnce(&Unwritten) -> bool) {
        let Self { messages, goes_on, thread, log } = self;
        // Where there is no room for it, the thread ends with the last of those who have lines.
        let _ = messages.try_send(ForWriter::End);
        drop(messages);
        loop {
            match goes_on.recv_timeout(LONGEST_LINE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    log.line("accounting not written to its end reason=\"the disk does not answer\"".to_owned());
                    return;
                }
            }
        }
        let unwritten = thread.join().unwrap_or_default();
        if unwritten == Unwritten::default() || hand_over(&unwritten) {
            return;
        }
        let Unwritten { lines, lost } = unwritten;
        log.line(format!("accounting ends lost={lost} reason=\"they were not written; lines of use follow\""));
        for line in lines {
            log.line(line);
        }
    }
}

/// Opens the file that lines are added to, which must not be a pipe that nobody reads.
///
/// # Errors
/// If the system refuses it.
pub(crate) fn open(accounting: &Accounting) -> Result<Option<File>, ServiceError> {
    let Some(path) = &accounting.file else { return Ok(None) };
    add_to(path).map(Some).map_err(|error| {
        let system = ServiceError::system(&format!("accounting.file {}", path.display()))(error);
        check(accounting).err().unwrap_or(system)
    })
}

/// Says of who wrote to the file before this service started that it left a torn line.
pub(crate) fn of_killed(file: Option<&File>) -> Option<String> {
    let is_torn = file.and_then(ends_within_line)?;
    let said = "accounting: the file ends within a line: who wrote there was killed, or ended on a full disk, and wrote no more";
    is_torn.then(|| said.to_owned())
}

/// Opens it in a service that runs, for lines that went to `old` until now. What has become of that file is no reason to refuse a
/// configuration.
///
/// # Errors
/// As [`open`], for another file.
pub(crate) fn reopen(new: &Accounting, old: Option<&Accounting>, log: &Log) -> Result<Destination, ServiceError> {
    match open_confined(new) {
        Err(error) if old.is_some_and(|old| old.file == new.file) => {
            log.line(format!("accounting: the same file is not opened again: {error}"));
            Ok(Destination::Old)
        }
        opened => opened.map(Destination::New),
    }
}

/// Opens it in a service that may be confined to the folders that it was started with.
fn open_confined(accounting: &Accounting) -> Result<Option<File>, ServiceError> {
    open(accounting).map_err(|error| match error {
        ServiceError::System { what, error } if error.kind() == ErrorKind::PermissionDenied => {
            let why =
                "the service that runs may add files only to the folder that it was started with, if its user may; \
                       `perigee-pep upgrade` lets it have another";
            ServiceError::System { what, error: io::Error::other(format!("{error}: {why}")) }
        }
        other => other,
    })
}

/// Checks that lines can be added to the file, or that its folder is there. What only another user may do is left open.
///
/// # Errors
/// With the line of the configuration, and the fix.
pub(crate) fn check(accounting: &Accounting) -> Result<(), ServiceError> {
    let Some(path) = &accounting.file else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (why, fix) =
        match fs::metadata(path).and_then(|it| if it.is_dir() { Ok(()) } else { adding().open(path).map(drop) }) {
            _ if path.as_os_str().is_empty() => {
                ("it is empty".to_owned(), "name a file, or remove the key: lines go into the log")
            }
            Ok(()) if path.is_dir() => ("it is a folder".to_owned(), "name a file in it"),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                ("nobody reads this pipe".to_owned(), "start its reader first, or name a file")
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !folder.is_dir() => {
                ("its folder is not there".to_owned(), "make the folder, or name a file in another")
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                (error.to_string(), "name a file that lines can be added to")
            }
            _ => return Ok(()),
        };
    let message = format!("`accounting.file` {:?}: {why}", path.to_string_lossy());
    Err(StrictError::new(&accounting.file_at, message, fix).into())
}

/// Opens a file to add to, and if that may be to read how it ends; not a pipe, which would have a reader then.
fn add_to(path: &Path) -> io::Result<File> {
    let is_pipe = fs::metadata(path).is_ok_and(|it| !it.is_file());
    let opened = adding().create(true).read(!is_pipe).open(path);
    match opened {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => adding().create(true).open(path),
        opened => opened,
    }
}

/// How the file is opened.
fn adding() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o640).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options
}

impl Writing {
    fn run(mut self, messages: &Receiver<ForWriter>) -> Unwritten {
        loop {
            let pause = self.due - monotonic();
            match messages.recv_timeout(Duration::from_nanos(pause.as_nanos())) {
                Ok(ForWriter::Connection(record)) => drop(self.line(&text("connection", record))),
                Ok(ForWriter::Kept(line)) => self.kept.push(line),
                Ok(ForWriter::Configure(accounting, destination)) => self.configure(accounting, destination),
                Ok(ForWriter::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if monotonic() >= self.due {
                self.tell();
            }
        }
        self.tell();
        let lines = self.stats.usage.untold().into_iter().map(|line| of_use(&line, Time::ZERO));
        Unwritten { lines: self.kept.into_iter().chain(lines).collect(), lost: self.stats.unwritten.get() - self.told }
    }

    fn configure(&mut self, accounting: Accounting, destination: Destination) {
        // Where the lines were until now.
        self.tell();
        self.due = self.began + accounting.every;
        self.accounting = accounting;
        if let Destination::New(file) = destination {
            (self.file, self.is_torn) = (file, false);
        }
    }

    /// Ends an interval with a line of each subscriber and rule.
    fn tell(&mut self) {
        let now = monotonic();
        let interval = now - self.began;
        let kept = self.tell_lost().and_then(|()| self.tell_kept());
        self.note(&kept);
        for line in self.stats.usage.untold() {
            let is_written = self.line(&of_use(&line, interval));
            self.stats.usage.told(&line, is_written, interval);
        }
        (self.began, self.due) = (now, now + self.accounting.every);
    }

    /// Writes a line; before it, how many were lost. False: it was not written.
    fn line(&mut self, line: &str) -> bool {
        let written = self.tell_lost().and_then(|()| self.write(line));
        if written.is_err() {
            self.stats.unwritten.add(1);
        }
        self.note(&written);
        written.is_ok()
    }

    /// Logs when writing begins to fail, and when it works again.
    fn note(&mut self, written: &io::Result<()>) {
        match written {
            Err(error) if !self.fails => {
                self.log.line(format!("accounting not written reason={}", quoted(error)));
            }
            Ok(()) if self.fails => self.log.line("accounting written again".to_owned()),
            _ => {}
        }
        self.fails = written.is_err();
    }

    fn tell_kept(&mut self) -> io::Result<()> {
        while let Some(line) = self.kept.last().cloned() {
            self.write(&line)?;
            self.kept.pop();
        }
        Ok(())
    }

    fn tell_lost(&mut self) -> io::Result<()> {
        let lost = self.stats.unwritten.get();
        if lost > self.told {
            let lines = Map::from_iter([("lines".to_owned(), (lost - self.told).into())]);
            self.write(&text("lost", lines))?;
            self.told = lost;
        }
        Ok(())
    }

    /// Writes all of a line at once, or nothing as far as the system lets it: two processes add to one file during an upgrade.
    fn write(&mut self, line: &str) -> io::Result<()> {
        // Nobody listens before the end, or no longer.
        let _ = self.goes_on.try_send(());
        let Some(file) = &mut self.file else {
            self.log.line(line.to_owned());
            return Ok(());
        };
        if file.metadata()?.nlink() == 0 {
            // Nobody would find its lines. Its folder may be there again.
            let opened = open_confined(&self.accounting).map_err(|why| io::Error::other(format!("removed: {why}")))?;
            *file = opened.ok_or(ErrorKind::NotFound)?;
        }
        // A torn line stands by itself, whichever process has left it.
        let is_torn = ends_within_line(file).unwrap_or(self.is_torn);
        let whole = format!("{}{line}\n", if is_torn { "\n" } else { "" });
        let written = file.write(whole.as_bytes())?;
        self.is_torn = written < whole.len();
        // All but the end of the line is the whole object.
        if written + 1 < whole.len() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }
}

/// The line of use by somebody in an interval, and before it.
fn of_use(line: &Use, interval: Time) -> String {
    let mut record = Map::from_iter([
        ("seconds".to_owned(), (line.earlier + interval).as_secs_f64().into()),
        ("subscriber".to_owned(), line.name.clone().into()),
        ("rule".to_owned(), line.rule.clone().into()),
    ]);
    record.extend(Count::all().map(|count| (count.name(), line.used.get(count).into())));
    text("use", record)
}

/// A line with its version, kind and time.
fn text(kind: &str, record: Map<String, Value>) -> String {
    let mut all = Map::from_iter([
        ("v".to_owned(), VERSION.into()),
        ("kind".to_owned(), kind.into()),
        ("at".to_owned(), seconds_since_1970().into()),
    ]);
    all.extend(record);
    Value::Object(all).to_string()
}

/// The format's: it changes when a name or a meaning does, and not when one is added.
const VERSION: u32 = 1;
/// Time that a line may take at the end.
const LONGEST_LINE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use perigee_text::Origin;

    use super::*;
    use crate::config::Who;
    use crate::relay::Side;

    fn accounting(file: &Path) -> Accounting {
        Accounting {
            file: Some(file.to_owned()),
            file_at: Origin::line("pep.toml", 9),
            every: Time::from_secs(3600),
            connections: true,
        }
    }

    fn start(accounting: &Accounting, stats: &Arc<Stats>) -> (Records, AccountWriter, Receiver<String>) {
        let (records, messages) = Records::new(accounting);
        let (log, said) = Log::new(stats.clone());
        let file = open(accounting).unwrap();
        let writer = AccountWriter::start(accounting.clone(), file, (&records, messages), stats.clone(), log).unwrap();
        (records, writer, said)
    }

    /// Waits for all lines, even of a thread that has no processor for long.
    fn end(records: Records, writer: AccountWriter) -> Unwritten {
        drop(records);
        writer.messages.send(ForWriter::End).unwrap();
        while writer.goes_on.recv().is_ok() {}
        writer.thread.join().unwrap()
    }

    fn read(path: &Path) -> Vec<Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn connection(name: &str) -> Map<String, Value> {
        Map::from_iter([("rule".to_owned(), name.into())])
    }

    #[test]
    fn each_subscriber_has_a_line_and_a_file_that_was_moved_away_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let [path, old] = ["use.jsonl", "use.jsonl.1"].map(|name| folder.path().join(name));
        let (accounting, stats) = (accounting(&path), Arc::new(Stats::default()));
        let (records, writer, _) = start(&accounting, &stats);
        let counts = stats.usage.of("web", Who::Table("ship".to_owned()));
        counts.add(Count::Bytes(Side::Server), 1000);
        records.connection(&stats, || connection("web"));
        std::fs::rename(&path, &old).unwrap();
        assert!(records.configure(accounting.clone(), Destination::New(open(&accounting).unwrap())));
        while read(&old).len() < 2 {
            std::thread::yield_now();
        }
        counts.add(Count::Bytes(Side::Server), 20);
        records.connection(&stats, || connection("far"));
        end(records, writer);
        let lines = [read(&old), read(&path)];
        let words = lines.each_ref().map(|lines| {
            let words = |line: &Value| format!("{} {} {}", line["kind"], line["rule"], line["bytes_down"]);
            lines.iter().map(words).collect::<Vec<_>>()
        });
        assert_eq!(words[0], ["\"connection\" \"web\" null", "\"use\" \"web\" 1000"]);
        assert_eq!(words[1], ["\"connection\" \"far\" null", "\"use\" \"web\" 20"]);
        let line = &lines[0][1];
        assert_eq!((&line["v"], &line["subscriber"], &line["client_path_us"]), (&1.into(), &"ship".into(), &0.into()));
        assert_eq!(stats.unwritten.get(), 0);
    }

    #[test]
    fn a_full_disk_loses_lines_and_the_next_one_says_how_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("use.jsonl");
        let stats = Arc::new(Stats::default());
        let full = accounting(Path::new("/dev/full"));
        let (records, writer, log) = start(&full, &stats);
        (0..3).for_each(|_| records.connection(&stats, || connection("web")));
        stats.usage.of("web", Who::Table("ship".to_owned())).add(Count::Bytes(Side::Server), 1000);
        let accounting = accounting(&path);
        assert!(records.configure(accounting.clone(), Destination::New(open(&accounting).unwrap())));
        records.connection(&stats, || connection("web"));
        end(records, writer);
        let lines = read(&path);
        assert_eq!(lines.len(), 3, "{lines:?}");
        // The line of use is one of them; its bytes are in the next.
        assert_eq!((&lines[0]["kind"], &lines[0]["lines"]), (&"lost".into(), &4.into()));
        assert_eq!((&lines[2]["kind"], &lines[2]["bytes_down"]), (&"use".into(), &1000.into()));
        assert_eq!(stats.unwritten.get(), 4);
        let said: Vec<String> = log.try_iter().collect();
        assert!(said.len() == 2 && said[0].contains("not written reason=") && said[1].contains("again"), "{said:?}");
    }

    #[test]
    fn what_finds_no_room_until_the_end_is_the_next_process_s_or_the_log_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("use.jsonl");
        let old = || {
            let stats = Arc::new(Stats::default());
            let (records, writer, log) = start(&accounting(Path::new("/dev/full")), &stats);
            (0..2).for_each(|_| records.connection(&stats, || connection("web")));
            stats.usage.of("web", Who::Table("ship".to_owned())).add(Count::Bytes(Side::Server), 1000);
            (records, writer, log)
        };
        let (records, writer, _) = old();
        let left = end(records, writer);
        // The line of use was not written, either.
        assert_eq!((left.lines.len(), left.lost), (1, 3));
        // Its disk is full first, and the line of another process torn.
        fs::write(&path, "{\"at\":17").unwrap();
        let (new, stats) = (accounting(&path), Arc::new(Stats::default()));
        let (records, writer, _) = start(&accounting(Path::new("/dev/full")), &stats);
        assert!(records.keep(&left.lines[0]));
        stats.unwritten.add(left.lost);
        let file = open(&new).unwrap();
        assert!(of_killed(file.as_ref()).unwrap().contains("ends within a line"));
        assert!(records.configure(new.clone(), Destination::New(file)));
        assert_eq!(end(records, writer), Unwritten::default());
        let text = fs::read_to_string(&path).unwrap();
        let (torn, whole) = text.split_once('\n').unwrap();
        let whole: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((torn, whole.len(), &whole[0]["lines"]), ("{\"at\":17", 2, &3.into()));
        assert_eq!((&whole[1]["subscriber"], &whole[1]["bytes_down"]), (&"ship".into(), &1000.into()));
        // Without another process.
        let (records, writer, log) = old();
        drop(records);
        writer.finish(|left| left.lost == 0);
        let said: Vec<String> = log.try_iter().collect();
        assert!(said[1].starts_with("accounting ends lost=3 ") && said[2].contains("\"bytes_down\":1000"), "{said:?}");
    }

    #[test]
    fn a_file_that_was_removed_with_its_folder_is_made_again_once_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accounts/use.jsonl");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let (mut accounting, stats) = (accounting(&path), Arc::new(Stats::default()));
        let (records, writer, log) = start(&accounting, &stats);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        records.connection(&stats, || connection("web"));
        let said = log.recv().unwrap();
        assert!(
            said.contains("accounting not written reason=\"removed: ") && said.contains("its folder is not"),
            "{said}"
        );
        // The configuration is read again nevertheless, and its other keys hold. Another file is refused.
        accounting.every = Time::from_secs(1800);
        let (own, again) = Log::new(stats.clone());
        let destination = reopen(&accounting, Some(&accounting), &own).unwrap();
        assert!(again.recv().unwrap().contains("the same file is not opened again"));
        assert!(records.configure(accounting.clone(), destination));
        reopen(&accounting, Some(&Accounting { file: None, ..accounting.clone() }), &own).unwrap_err();
        fs::create_dir(path.parent().unwrap()).unwrap();
        records.connection(&stats, || connection("far"));
        end(records, writer);
        let words = read(&path)
            .iter()
            .map(|line| format!("{} {} {}", line["kind"], line["rule"], line["lines"]))
            .collect::<Vec<_>>();
        assert_eq!(words, ["\"lost\" null 1", "\"connection\" \"far\" null"]);
    }

    #[test]
    fn a_file_that_no_line_can_be_added_to_is_refused_with_its_line_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        for (path, why) in [
            (at("none/use.jsonl"), "its folder is not there; make the folder"),
            (at("file/use.jsonl"), "Not a directory (os error 20); name a file that"),
            (folder.path().to_owned(), "it is a folder; name a file in it"),
            (at("use\0jsonl"), "file name contained an unexpected NUL byte; name"),
            (Path::new("").to_owned(), "it is empty; name a file"),
        ] {
            let said = check(&accounting(&path)).unwrap_err().to_string();
            assert!(said.starts_with(&format!("pep.toml:9: `accounting.file` {path:?}: {why}")), "{said}");
        }
        for path in [at("file"), at("new")] {
            check(&accounting(&path)).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused_and_one_that_is_full_delays_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let (accounting, stats) = (accounting(&path), Arc::new(Stats::default()));
        let said = open(&accounting).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("pep.toml:9: `accounting.file` {path:?}: nobody reads this pipe; start its reader first, or name a file")
        );
        let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let (records, writer, _) = start(&accounting, &stats);
        for _ in 0..20_000 {
            records.connection(&stats, || connection("web"));
        }
        end(records, writer);
        let mut all = String::new();
        let _ = reader.read_to_string(&mut all);
        let lines = all.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let whole = lines.filter(|line| line["kind"] == "connection").count() as u64;
        assert!(whole > 0 && whole + stats.unwritten.get() == 20_000, "{whole} and {}", stats.unwritten.get());
    }
}
