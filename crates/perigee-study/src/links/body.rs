//! Distributions of what is added to a delay: their keys, their reading, and what reports say of them.

use perigee_link::Body;
use perigee_text::{required, Form, Node, Process, Section, StrictError};

use super::process::{table_of, DELAY_VALUE, MEDIAN, SIGMA};

pub(super) static BODIES: Process = Process {
    name: "body",
    plain: None,
    forms: &[
        Form { kind: Some("normal"), section: &NORMAL },
        Form { kind: Some("uniform"), section: &WIDTH },
        Form { kind: Some("triangular"), section: &WIDTH },
        Form { kind: Some("log-normal"), section: &LOG_NORMAL },
    ],
    is_list: false,
};
static NORMAL: Section = Section { name: "body, normal", keys: &[required("sd", DELAY_VALUE, "Standard deviation.")] };
static WIDTH: Section =
    Section { name: "body, uniform or triangular", keys: &[required("width", DELAY_VALUE, "Largest value.")] };
static LOG_NORMAL: Section = Section { name: "body, log-normal", keys: &[MEDIAN, SIGMA] };

pub(super) fn body(node: &Node, what: &str) -> Result<Body, StrictError> {
    let (kind, table) = table_of(&BODIES, node, what)?;
    Ok(match kind {
        Some("normal") => Body::Normal { sd: table.get("sd")? },
        Some("uniform") => Body::Uniform { width: table.get("width")? },
        Some("triangular") => Body::Triangular { width: table.get("width")? },
        _ => Body::LogNormal { median: table.get("median")?, sigma: table.get("sigma")? },
    })
}

/// A distribution in words.
pub(super) fn in_words(body: &Body) -> String {
    match body {
        Body::Normal { sd } => format!("normal, sd {sd}"),
        Body::Uniform { width } => format!("uniform, up to {width} more"),
        Body::Triangular { width } => format!("triangular, up to {width} more"),
        Body::LogNormal { median, sigma } => format!("log-normal, median {median}, sigma {sigma}"),
    }
}
