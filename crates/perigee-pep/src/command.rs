//! The command line: `run`, `upgrade`, `reload`, `check`, `rules`, `status`, `doctor`.

use std::ffi::OsString;
use std::path::Path;

use perigee_text::{clip, one_line};

use crate::config::Config;
use crate::doctor::{doctor, Options};
use crate::error::ServiceError;
use crate::host::at_end::end_by_panic;
use crate::host::congestion::unknown;
use crate::host::deployment::deployments;
use crate::host::intercept::script;
use crate::host::survey::{one_ways, survey};
use crate::service::answers::{ask, silent};
use crate::service::checks::read_and_check;
use crate::service::succession::command::{reload, upgrade, TAKE_OVER};
use crate::service::{read, run, take_over};
use crate::version::VERSION;

/// Executes a command line without the program's name; returns the exit code: 2 for wrong input, 1 for a failure.
pub fn main(arguments: &[OsString]) -> u8 {
    end_by_panic();
    let words: Vec<&Path> = arguments.iter().map(Path::new).collect();
    let is = |at: usize, word: &str| words.get(at).is_some_and(|each| *each == Path::new(word));
    let done = match words.len() {
        1 if is(0, "--version") => {
            println!("perigee-pep {VERSION}");
            return 0;
        }
        1 if is(0, "--help") || is(0, "-h") => {
            print!("{HELP}");
            return 0;
        }
        2 if is(0, "run") => run(words[1]),
        2 if is(0, "upgrade") => upgrade(words[1]).map(|said| println!("{said}")),
        2 if is(0, "reload") => reload(words[1]).map(|said| println!("{said}")),
        2 if is(0, TAKE_OVER) => {
            let done = take_over(words[1]);
            // The process that has started it waits for this.
            return done.map_or_else(
                |error| {
                    println!("{} {}", code(&error), one_line(&error.to_string()));
                    code(&error)
                },
                |()| 0,
            );
        }
        2 if is(0, "check") => read_and_check(words[1]).map(|config| {
            // The configuration may be that of another host.
            for finding in unknown(&config) {
                eprintln!("perigee-pep: warning: {finding}");
            }
            let count = config.rules.len() - 1;
            println!(
                "{}: {} forwarded, {}{}{}, {count} {}",
                words[1].display(),
                counted(config.forwards.len(), "address", "addresses"),
                if config.transparent.is_some() { "interception" } else { "no interception" },
                if config.tunnel.is_some() { ", a tunnel" } else { "" },
                if config.link.is_some() { ", a shared link" } else { "" },
                if count == 1 { "rule" } else { "rules" },
            );
        }),
        2 if is(0, "rules") => read(words[1]).map(|config| match script(&config) {
            Some(script) => print!("{script}"),
            None => eprintln!("perigee-pep: nothing is intercepted: `[transparent]` is missing"),
        }),
        2 if is(0, "status") => read(words[1]).and_then(|config| status(&config)),
        2 if is(0, "doctor") => match read_and_check(words[1]) {
            Ok(config) => return u8::from(!say(&config)),
            Err(error) => Err(error),
        },
        _ if is(0, "doctor") => Options::parse(&arguments[1..]).and_then(|options| doctor(&options)),
        _ => {
            let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
            let fix = "`perigee-pep --help` shows what is one";
            eprintln!("perigee-pep: `{}` is no command line; {fix}", one_line(&clip(&words.join(" "))));
            return 2;
        }
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("perigee-pep: {}", one_line(&error.to_string()));
            code(&error)
        }
    }
}

/// Exit code of an error.
fn code(error: &ServiceError) -> u8 {
    match error {
        ServiceError::File { .. } | ServiceError::Pem { .. } | ServiceError::Config(_) | ServiceError::Input(_) => 2,
        ServiceError::Taken(_)
        | ServiceError::System { .. }
        | ServiceError::Transfer(_)
        | ServiceError::Upgrade(_)
        | ServiceError::Silent(_) => 1,
    }
}

/// Prints the network of the service and what this host lacks there; true if that is nothing.
fn say(config: &Config) -> bool {
    for place in deployments(config) {
        println!("network: {place}");
    }
    let findings: Vec<_> = one_ways().into_iter().chain(survey(config)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("nothing of this host stands in the way");
    }
    findings.is_empty()
}

fn status(config: &Config) -> Result<(), ServiceError> {
    let Some(path) = &config.control else {
        let error =
            std::io::Error::other("add `control = \"/run/perigee-pep/control\"` to `[service]`, and restart it");
        return Err(ServiceError::system("the service has no control socket")(error));
    };
    print!("{}", ask(path).map_err(|error| silent(path, error))?);
    Ok(())
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

const HELP: &str = "\
perigee-pep: a proxy that splits TCP connections over satellite links

  perigee-pep run CONFIG.toml       run the service until SIGTERM; SIGHUP reloads its configuration
  perigee-pep upgrade CONFIG.toml   run this program in place of the running service, which ends its connections
  perigee-pep reload CONFIG.toml    have the running service reload its configuration, or upgrade it to this version
  perigee-pep check CONFIG.toml     check the configuration and report its errors
  perigee-pep rules CONFIG.toml     print the firewall rules and routes of the service as a script
  perigee-pep status CONFIG.toml    print the state of the running service
  perigee-pep doctor CONFIG.toml    say which network the service is in, and what this host needs, as root; exit code 1 if it lacks any
  perigee-pep doctor CONFIG.toml --to HOST:PORT/PATH
                                    fetch a file from a web server directly and through the proxy, and compare
  perigee-pep --version

Options of doctor:

  --to TARGET       HOST:PORT/PATH or http://HOST:PORT/PATH, over plain HTTP; [ADDRESS]:PORT/PATH for IPv6
  --rounds N        number of transfers by each way, in alternating order (2)
  --seconds N       maximum duration of a transfer (10)
  --bytes SIZE      maximum size of a transfer (\"100 MB\")
  --from ADDRESS    client address, which selects the rule (the first network of `allow.sources`)
  --interface NAME  interface at which the client's packets arrive (the first of `transparent.interfaces`)
  --json            print one JSON object
";
