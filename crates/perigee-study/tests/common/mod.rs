//! A small study that is right, and a loader of a few small files.
#![allow(dead_code, unreachable_pub, reason = "shared by several test programs, each of which uses a part")]

use perigee_study::{Overrides, Run, Study, StudyError};

/// A study with one of everything; line numbers matter to the tests of errors.
pub const SMALL: &str = r#"name = "small"
seed = 7
rounds = 2
nodes = ["server", "middle", "client"]

[inputs]
bw = "a trace of the capacity"

[measure]
series = "100 ms"
startup = "1 MB"
milestones = { every = "1 MB", upto = "3 MB" }
pcap = ["client"]

[hosts]
rmem = ["4 KiB", "128 KiB", "6 MiB"]
[hosts.client]
delayed_acks = false

[[links]]
name = "wire"
between = ["server", "middle"]
rate = "1 Gbit/s"
delay = "1 ms"

[[links]]
name = "air"
between = ["middle", "client"]
profile = "geo"
up = { rate = "5 Mbit/s" }

[[flows]]
name = "download"
from = "server"
to = "client"
size = "10 MB"
cc = "reno"

[[flows]]
name = "echo"
kind = "ping"
from = "client"
to = "server"
interval = "100 ms"
packet = "64 B"
repeat = 10
start = "1 s"
start_jitter = "8 us"

[vary]
"flows.download.cc" = ["reno", "cubic"]
"links.air.down.rate" = ["10 Mbit/s", "20 Mbit/s", "30 Mbit/s"]

[reduced]
set = { rounds = 1, "flows.download.size" = "1 MB" }
"#;

/// The profile of [`SMALL`].
pub const GEO: &str = r#"name = "geo"
title = "A geostationary link"
source = "none"
[down]
rate = "100 Mbit/s"
delay = "300 ms"
queue = { bytes = "7.5 MB" }
[up]
rate = "10 Mbit/s"
delay = "300 ms"
"#;

/// The files there are.
pub fn load(name: &str) -> Result<Vec<u8>, String> {
    match name {
        "profiles/geo.toml" => Ok(GEO.into()),
        "profiles/traced.toml" => Ok(GEO.replace("\"100 Mbit/s\"", "{ trace = \"bw.txt\" }").into()),
        "bw.txt" | "profiles/bw.txt" => Ok(b"1\n2\n2\n4\n".to_vec()),
        "profiles/" => Ok(b"README.md\ngeo.toml\ntraced.toml\n".to_vec()),
        _ => Err("no such file".into()),
    }
}

/// The plan of a study with these settings.
pub fn plan(text: &str, settings: &[&str], reduced: bool) -> Result<Vec<Run>, StudyError> {
    Study::parse(text, "s.toml")?.plan(&Overrides::new(settings, reduced)?, &mut load)
}

/// The error of a study with these settings.
pub fn error(text: &str, settings: &[&str]) -> String {
    match plan(text, settings, false) {
        Ok(runs) => format!("no error, {} runs", runs.len()),
        Err(error) => error.to_string(),
    }
}

/// [`SMALL`] with `old` replaced by `new`; panics where there is no `old`.
pub fn small_with(old: &str, new: &str) -> String {
    assert!(SMALL.contains(old), "`{old}` is not in the small study");
    SMALL.replacen(old, new, 1)
}
