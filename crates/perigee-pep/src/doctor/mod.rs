//! Compares a transfer through the proxy with a direct one.
//!
//! Both start at this host. The direct one has the host's own settings. The proxied one goes through a forward inside this
//! command, with the configuration's rule for the target: the code of the service, whether it runs or not. The leg towards
//! the client is the loopback device, so that the figures lack the gain from splitting off a client's real path.

mod content;
mod fetch;
mod options;
mod report;
mod target;
mod transfer;
mod trial;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use perigee_units::Time;

use crate::config::{Config, Network, Request, Rule};
use crate::error::ServiceError;
use crate::host::deployment::lacks_address;
use crate::host::sys::is_own;
use crate::service::listener::addresses;
use crate::service::read;
use crate::shared::account::in_words;
use fetch::{fetch, pause, Bounds, FetchError};
pub(crate) use options::Options;
use report::Report;
use transfer::{ServerLeg, Transfer, Via};
use trial::Trial;

/// Makes the transfers and prints their table.
pub(crate) fn doctor(options: &Options) -> Result<(), ServiceError> {
    let config = read(&options.config)?;
    let address = options.target.resolve().map_err(ServiceError::Input)?;
    let client = Client::of(&config, options, address);
    let rule = rule(&config, &client, address).map_err(ServiceError::Input)?;
    if lacks_address(address) {
        let version = if address.is_ipv6() { 6 } else { 4 };
        let fix = "run this at a host that has one, such as the router behind a bridge, or give this one an address";
        return Err(ServiceError::Input(format!(
            "{address}: this host has no address of IPv{version} to fetch it with; {fix}"
        )));
    }
    let trial = Trial::start(&config, &rule, address)?;
    let mut report = Report::new(options, &rule, &client.to_string());
    let bounds = Bounds { longest: options.longest, most: options.most };
    let request = options.target.request();
    let mut rest = Time::ZERO;
    for round in 1..=options.rounds {
        let order = if round % 2 == 1 { [Via::Direct, Via::Proxied] } else { [Via::Proxied, Via::Direct] };
        for way in order {
            // Packets still in flight at a limit do not meet this transfer.
            pause(rest);
            let mut leg = ServerLeg::default();
            let done = match way {
                Via::Direct => fetch(|_| trial.dial(), &request, bounds, |socket| leg.look(socket)),
                Via::Proxied => fetch(
                    |deadline| trial.connect(deadline),
                    &request,
                    bounds,
                    |client| {
                        trial.with_server(client, |server| leg.look(server));
                    },
                ),
            };
            let fetched = done.map_err(|failure| {
                let reason = (way == Via::Proxied).then(|| trial.reason()).flatten();
                ServiceError::Transfer(message(&failure, address, way, options.longest, reason.as_deref()))
            })?;
            trial.settle();
            rest = (Time::from_micros(u64::from(leg.info.rtt_us)) * ROUND_TRIPS).min(LONGEST_REST);
            report.add(Transfer { round, way, fetched, leg });
        }
    }
    report.conclude(&trial.notes())
}

/// The client for which the rule is chosen.
#[derive(Clone, Debug)]
struct Client {
    network: Network,
    interface: Option<String>,
}

impl Client {
    /// The client of `--from`; otherwise the first allowed network of the target's IP version.
    fn of(config: &Config, options: &Options, target: SocketAddr) -> Self {
        let sources = &config.allow.sources;
        let of_version = sources.iter().find(|network| network.is_ipv6() == target.is_ipv6());
        let allowed = || of_version.or(sources.first()).copied();
        let network = options.client.map(Network::from).or_else(allowed);
        let intercepted = || config.transparent.as_ref().and_then(|one| one.interfaces.first().cloned());
        Self {
            network: network.unwrap_or_else(|| target.ip().into()),
            interface: options.interface.clone().or_else(intercepted),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.network)?;
        self.interface.as_ref().map_or(Ok(()), |name| write!(f, " at {name}"))
    }
}

/// The rule of a client's connection to the target; the error says why the service would not carry it, and the fix.
fn rule(config: &Config, client: &Client, target: SocketAddr) -> Result<Arc<Rule>, String> {
    let source = client.network.first();
    if let Some(reason) = config.allow.refusal(source, target.ip(), is_own) {
        let fix = "change `[allow]`, or name another target, or another client with --from";
        return Err(format!("{target}, for a client of {client}: {reason}; {fix}"));
    }
    if addresses(config).iter().any(|(address, _)| address.port() == target.port()) && is_own(target.ip()) {
        return Err(format!("{target}: it leads back to the service; name another target"));
    }
    let is_forwarded = config.forwards.iter().any(|forward| forward.target == target);
    let is_gateway = config.tunnel.as_ref().is_some_and(|tunnel| tunnel.listens().is_some());
    match &config.transparent {
        _ if is_forwarded || is_gateway => {}
        None => {
            return Err(format!("{target}: no `[[forward]]` leads there; name the target of one, or add one"));
        }
        Some(transparent) => {
            if !transparent.has_port(target.port()) {
                let fix = "name a target with one of these ports, or add its port";
                return Err(format!("{target}: its port is not within `transparent.ports`; {fix}"));
            }
            let is_there = |name: &String| transparent.interfaces.is_empty() || transparent.interfaces.contains(name);
            if let Some(name) = client.interface.as_ref().filter(|name| !is_there(name)) {
                let fix = format!("use one of {}", transparent.interfaces.join(", "));
                return Err(format!("`--interface {name}` is not within `transparent.interfaces`; {fix}"));
            }
        }
    }
    let source = SocketAddr::new(source, 0);
    let request = Request { source, destination: target, interface: client.interface.as_deref(), dscp: 0 };
    let rule = config.rule(&request).cloned().ok_or_else(|| format!("{target}: no rule; add one to `[[rules]]`"))?;
    if rule.is_tunnelled {
        let fix = "name a target of another rule, or run this at the gateway";
        return Err(format!("{target}: rule `{}` leads through the tunnel, which is the service's; {fix}", rule.name));
    }
    Ok(rule)
}

/// The error message of a failed transfer, with the fix.
fn message(failure: &FetchError, target: SocketAddr, way: Via, longest: Time, reason: Option<&str>) -> String {
    let (what, fix) = match failure {
        FetchError::Connection(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (format!("packets cannot have the service's mark: {error}"), "run it as root, or with CAP_NET_ADMIN")
        }
        FetchError::Connection(error) => (
            match reason {
                Some(reason) => reason.to_owned(),
                None => format!("the server {}: {error}", in_words(error.kind())),
            },
            "check that the server runs and is reachable, or name another target",
        ),
        FetchError::Silent => {
            (format!("no answer within {longest}"), "check that the server is reachable, or raise --seconds")
        }
        FetchError::NoHttp(line) => (format!("no answer in HTTP but {line}"), "name the address of a web server"),
        FetchError::Status(line) => (format!("the server answers {line}"), "name a file that it has"),
        FetchError::Cut(bytes, all) => {
            (format!("the answer ended after {bytes} of {all} bytes"), "check the server's log")
        }
    };
    format!("{target}, {}: {what}; {fix}", way.in_words())
}

/// Pause between two transfers in round trips, and its maximum.
const ROUND_TRIPS: u64 = 3;
const LONGEST_REST: Time = Time::from_secs(2);
