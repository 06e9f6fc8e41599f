//! Memory of the routes between nodes, of connections that have ended, for hosts with `route_metrics`.

use perigee_tcp::{Endpoint, RouteMetrics};

/// A connection's route: the node that sends its data, and the one that receives them.
pub(crate) type Route = (u32, u32);

#[derive(Debug, Default)]
pub(crate) struct Remembered(Vec<(Route, RouteMetrics)>);

impl Remembered {
    /// The metrics of a route.
    pub(crate) fn of(&self, route: Route) -> RouteMetrics {
        self.0.iter().find(|(known, _)| *known == route).map_or_else(RouteMetrics::default, |(_, metrics)| *metrics)
    }

    /// A connection on the route has ended, with this sender.
    pub(crate) fn note(&mut self, route: Route, sender: &Endpoint) {
        let metrics = sender.route_metrics(self.of(route));
        match self.0.iter_mut().find(|(known, _)| *known == route) {
            Some((_, known)) => *known = metrics,
            None => self.0.push((route, metrics)),
        }
    }
}
