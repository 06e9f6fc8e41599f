//! A flow before an engine has measured anything: its row of results, and its description in words.

use perigee_results::{FlowRow, Outcome};
use perigee_wire::IpVersion;

use crate::quic;
use crate::run::{FlowSpec, Run, Scenario};
use crate::transport::{Leg, Opener};

impl Run {
    /// The row of a flow with its description only; `engine` is the name of the engine. A flow that does not begin within the run's
    /// time keeps this row.
    pub fn flow_row(&self, engine: &str, spec: &FlowSpec) -> FlowRow {
        let scenario = &self.scenario;
        let (cc, cc_params) = match spec.traffic.congestion_control() {
            Some((cc, params)) => (cc.algorithm().name().into(), params.clone()),
            None => ("".into(), "{}".into()),
        };
        FlowRow {
            study: scenario.study.clone(),
            engine: engine.into(),
            round: self.round,
            seed: self.seed,
            point: scenario.point.clone(),
            kind: spec.traffic.kind().into(),
            from_node: scenario.nodes[spec.from as usize].clone(),
            to_node: scenario.nodes[spec.to as usize].clone(),
            cc,
            cc_params,
            outcome: Outcome::TimeLimit.name(),
            ..FlowRow::new(self.index, spec.name.clone())
        }
    }

    /// The row of a leg of a flow with its description only; `number` is from 0.
    pub fn leg_row(&self, engine: &str, spec: &FlowSpec, number: u32, leg: &Leg) -> FlowRow {
        let name_of = |node: u32| self.scenario.nodes[node as usize].clone();
        FlowRow {
            leg: Some(number + 1),
            from_node: name_of(leg.from),
            to_node: name_of(leg.to),
            cc: leg.sender.cc.algorithm().name().into(),
            cc_params: leg.sender.cc_params.clone(),
            ..self.flow_row(engine, spec)
        }
    }
}

/// A flow in words.
pub(crate) fn in_words(scenario: &Scenario, flow: &FlowSpec) -> Vec<(&'static str, String)> {
    let mut words = vec![("kind", flow.traffic.kind().to_owned())];
    words.push(("amount", flow.traffic.to_string()));
    if flow.ip == IpVersion::V6 {
        words.push(("packets", "IPv6".to_owned()));
    }
    if let Some(tcp) = flow.traffic.tcp() {
        words.push(("opened by", opener(tcp.opened_by)));
        if !tcp.legs.is_empty() {
            words.push(("legs", format!("{}, split by proxies", tcp.legs.len())));
        }
    }
    if let Some(quic) = flow.traffic.quic() {
        words.push(("opened by", opener(quic.opened_by)));
        words.extend(quic::in_words(quic));
        words.push(("flow control", scenario.tightest_window(flow, quic).to_owned()));
    }
    if let Some((cc, params)) = flow.traffic.congestion_control() {
        words.push(("congestion control", format!("{}{}", cc.algorithm().name(), parameters(params))));
    }
    words.push(("start", flow.start.to_string()));
    words
}

/// The end that opens a connection.
fn opener(opener: Opener) -> String {
    if opener == Opener::Sender { "the sender" } else { "the receiver" }.to_owned()
}

/// Parameters of an algorithm, which are JSON, in brackets: ` (beta = 50 %, loss = 10)`; empty without any.
fn parameters(json: &str) -> String {
    let Ok(serde_json::Value::Object(set)) = serde_json::from_str(json) else { return String::new() };
    let said: Vec<String> = set
        .iter()
        .map(|(name, value)| format!("{name} = {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    if said.is_empty() {
        return String::new();
    }
    format!(" ({})", said.join(", "))
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_are_words() {
        assert_eq!((parameters(""), parameters("{}")), (String::new(), String::new()));
        assert_eq!(parameters(r#"{"beta":"50 %","loss":10}"#), " (beta = 50 %, loss = 10)");
    }
}
