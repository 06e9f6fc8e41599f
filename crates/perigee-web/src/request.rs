//! Requests of the script, as JSON.

use perigee_study::Overrides;
use perigee_units::Time;
use serde_json::Value;

use crate::engine::Asked;
use crate::limits::Limits;
use crate::problem::{Kind, Problem};

/// A request: an object with `do` and what that needs.
pub(crate) struct Request<'a>(pub(crate) &'a Value);

impl Request<'_> {
    pub(crate) fn text(&self, key: &str) -> Result<&str, Problem> {
        self.0[key].as_str().ok_or_else(|| missing(key))
    }

    pub(crate) fn number(&self, key: &str) -> Result<u64, Problem> {
        self.0[key].as_u64().ok_or_else(|| missing(key))
    }

    pub(crate) fn small(&self, key: &str) -> Result<u32, Problem> {
        u32::try_from(self.number(key)?).map_err(|_| missing(key))
    }

    /// A number that may be missing.
    pub(crate) fn optional(&self, key: &str) -> Option<u64> {
        self.0[key].as_u64()
    }

    /// A number of seconds; missing: the end of time.
    pub(crate) fn seconds(&self, key: &str) -> Time {
        self.0[key].as_f64().map_or(Time::MAX, |s| Time::from_secs_f64(s.max(0.0)))
    }

    /// The study: `text`, and of `options` the `file`, `reduced`, `overrides` and `seed`.
    pub(crate) fn asked(&self) -> Result<Asked, Problem> {
        let options = &self.0["options"];
        let file = options["file"].as_str().unwrap_or("study.toml").to_owned();
        let mut set = Vec::new();
        for (key, value) in options["overrides"].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            set.push((key.clone(), value));
        }
        if let Some(seed) = options["seed"].as_u64() {
            set.push(("seed".to_owned(), seed.to_string()));
        }
        let overrides = Overrides { reduced: options["reduced"].as_bool().unwrap_or(false), set };
        Ok(Asked { text: self.text("text")?.to_owned(), file, overrides })
    }

    /// The number of the run, the first where none is given.
    pub(crate) fn run(&self) -> Result<u32, Problem> {
        match &self.0["options"]["run"] {
            Value::Null => Ok(0),
            given => given.as_u64().and_then(|run| u32::try_from(run).ok()).ok_or_else(|| missing("options.run")),
        }
    }

    /// How many runs are named at most; all where no number is given.
    pub(crate) fn most(&self) -> u32 {
        self.0["options"]["most"].as_u64().map_or(u32::MAX, |most| most.min(u64::from(u32::MAX)) as u32)
    }

    /// These limits with those that are given in their place.
    pub(crate) fn limits(&self, now: Limits) -> Limits {
        let number = |key: &str, unchanged: u64| self.0[key].as_f64().map_or(unchanged, |given| given as u64);
        Limits {
            memory: number("memory", now.memory),
            events: number("events", now.events),
            simulated: self.0["simulated_s"].as_f64().map_or(now.simulated, Time::from_secs_f64),
        }
    }
}

fn missing(key: &str) -> Problem {
    Problem::new(Kind::Request, format!("the request has no `{key}`, or no number of its size"))
}
