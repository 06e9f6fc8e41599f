//! Options of `doctor`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use perigee_units::{suggestion, Bytes, Time};

use super::target::Target;
use crate::error::ServiceError;

/// Options of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The configuration.
    pub(crate) config: PathBuf,
    pub(crate) target: Target,
    /// Maximum duration of a transfer.
    pub(crate) longest: Time,
    /// Maximum size of a transfer.
    pub(crate) most: Bytes,
    /// Number of transfers by each way.
    pub(crate) rounds: u32,
    /// The client whose rule is applied; none: the first network that is allowed.
    pub(crate) client: Option<IpAddr>,
    /// The interface at which it arrives; none: the first that is intercepted.
    pub(crate) interface: Option<String>,
    pub(crate) as_json: bool,
}

impl Options {
    /// Reads the words after `doctor`.
    pub(crate) fn parse(words: &[OsString]) -> Result<Self, ServiceError> {
        Self::read(words).map_err(ServiceError::Input)
    }

    fn read(words: &[OsString]) -> Result<Self, String> {
        let (mut config, mut target, mut client, mut interface) = (None, None, None, None);
        let (mut longest, mut most, mut rounds, mut as_json) = (LONGEST, MOST, ROUNDS, false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.to_string_lossy();
            if name == "--json" {
                as_json = true;
                continue;
            }
            if !name.starts_with("--") {
                if config.replace(PathBuf::from(word)).is_some() {
                    return Err(format!("unexpected argument `{name}`; give one configuration"));
                }
                continue;
            }
            if !NAMES.contains(&&*name) {
                return Err(format!("`{name}` is unknown; {}", suggestion(&name, NAMES.into_iter())));
            }
            let value = words.next().map(|value| value.to_string_lossy().into_owned());
            let value = value.ok_or_else(|| format!("`{name}` has no value; write it after a space"))?;
            match &*name {
                "--to" => target = Some(Target::parse(&value)?),
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
                    let seconds: f64 = seconds.ok_or_else(|| wrong(&name, &value, "a number from 0.1 to 3600"))?;
                    longest = Time::from_secs_f64(seconds);
                }
                "--bytes" => {
                    let read: Result<Bytes, _> = value.parse();
                    let bytes = read.ok().filter(|bytes| bytes.as_u64() > 0);
                    most = bytes.ok_or_else(|| wrong(&name, &value, "a size, such as \"100 MB\""))?;
                }
                "--rounds" => {
                    let read: Option<u32> = value.parse().ok();
                    let read = read.filter(|rounds| (1..=100).contains(rounds));
                    rounds = read.ok_or_else(|| wrong(&name, &value, "a number from 1 to 100"))?;
                }
                "--from" => {
                    let address: Result<IpAddr, _> = value.parse();
                    client = Some(address.map_err(|_| wrong(&name, &value, "a client's address"))?);
                }
                _ => interface = Some(value),
            }
        }
        let config = config.ok_or("no configuration; write perigee-pep doctor CONFIG.toml [--to HOST:PORT/PATH]")?;
        let target = target.ok_or("no target; add --to HOST:PORT/PATH, the file of a web server")?;
        Ok(Self { config, target, longest, most, rounds, client, interface, as_json })
    }
}

fn wrong(name: &str, value: &str, wanted: &str) -> String {
    format!("`{name} {value}` is invalid; give {wanted}")
}

/// Defaults.
const LONGEST: Time = Time::from_secs(10);
const MOST: Bytes = Bytes::new(100_000_000);
const ROUNDS: u32 = 2;
const NAMES: [&str; 7] = ["--to", "--seconds", "--bytes", "--rounds", "--from", "--interface", "--json"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_stand_before_and_behind_the_configuration() {
        let line = "--rounds 3 pep.toml --to 192.0.2.1:80/f --seconds 2.5 --from 10.1.0.2 --interface lan0 --json";
        let options = read(line).unwrap();
        assert_eq!((options.rounds, options.longest), (3, Time::from_millis(2500)));
        assert_eq!(options.config, PathBuf::from("pep.toml"));
        assert_eq!(options.client, Some("10.1.0.2".parse().unwrap()));
        assert!(options.as_json && options.interface.as_deref() == Some("lan0"));
        let options = read("pep.toml --to 192.0.2.1:80 --bytes 5MB").unwrap();
        assert_eq!((options.most, options.rounds), (Bytes::new(5_000_000), 2));
    }

    #[test]
    fn a_wrong_option_is_an_error_with_the_fix() {
        for (line, fix) in [
            ("pep.toml", "no target; add --to HOST:PORT/PATH"),
            ("--to 192.0.2.1:80", "no configuration; write"),
            ("pep.toml --to", "`--to` has no value"),
            ("pep.toml --too 192.0.2.1:80", "did you mean `--to`?"),
            ("a.toml b.toml", "unexpected argument"),
            ("pep.toml --seconds 0", "a number from 0.1 to 3600"),
            ("pep.toml --rounds 101", "a number from 1 to 100"),
            ("pep.toml --bytes 5", "a size, such as"),
            ("pep.toml --from lan", "a client's address"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(fix), "{line}: {said}");
        }
    }
}
