//! The path from a user to a gateway, slot by slot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use perigee_units::{encode_struct, Encode, Time};

use crate::candidates::candidates;
use crate::curve::Curve;
use crate::frames::{minus, norm, Place, Station, Vector, View, EQUATOR_KM, LIGHT_KM_S};
use crate::mesh::Mesh;
use crate::scheduler::youths;
use crate::{Constellation, Satellite, Utc, Weights};

/// A ground station of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Its name in tables.
    pub name: String,
    /// Where it is.
    pub place: Place,
}

/// The parts of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// The satellites.
    pub constellation: Arc<Constellation>,
    /// Where the user is.
    pub user: Place,
    /// Where paths come down.
    pub gateways: Vec<Gateway>,
    /// Least elevation of a satellite at the user, degrees.
    pub elevation_deg: f64,
    /// Least elevation of a satellite at a gateway, degrees.
    pub gateway_elevation_deg: f64,
    /// Whether a path may go on from satellite to satellite; otherwise one satellite sees both user and gateway.
    pub isl: bool,
    /// The weights of the choice of a satellite.
    pub weights: Weights,
    /// Length of a slot.
    pub period: Time,
    /// Where in a minute a slot begins.
    pub phase: Time,
    /// The begin of the day on which a run begins.
    pub date: Utc,
}

/// The path from a user to a gateway over time: for each slot its satellites and gateway, and the delay within it.
///
/// A slot does not depend on those before it, so each is computed when it is first asked for, and kept: all links and runs
/// of a program that have the same path share one.
pub struct Path {
    spec: PathSpec,
    /// The constellation without satellites that have decayed.
    constellation: Constellation,
    satellites: Vec<Satellite>,
    youths: Vec<f64>,
    user: Station,
    gateways: Vec<Station>,
    /// Reach of each satellite for the user, see `Satellite::reach`.
    reaches: Vec<f64>,
    mesh: Option<Mesh>,
    blocks: Mutex<BTreeMap<i64, Arc<OnceLock<Block>>>>,
    typical: OnceLock<Time>,
}

/// The path of one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The satellites, from the user on.
    pub satellites: Vec<u32>,
    /// The gateway.
    pub gateway: u32,
    /// Delay in ns, over the slot from -1 to 1.
    curve: Curve,
    period: Time,
}

/// A satellite in the sky of the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sight {
    /// Which one.
    pub satellite: u32,
    /// Degrees above the horizon.
    pub elevation_deg: f64,
    /// Degrees from north to east.
    pub azimuth_deg: f64,
    /// Distance, km.
    pub range_km: f64,
}

/// Why there is no such path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The part that is wrong: `elements`, `user` or `gateways`.
    pub part: &'static str,
    /// The error, with the value.
    pub message: String,
    /// The fix.
    pub fix: String,
}

/// Neighbouring slots, whose candidates are found together.
struct Block {
    candidates: Vec<Vec<u32>>,
    routes: Vec<OnceLock<Option<Arc<Route>>>>,
}

encode_struct!(Gateway { name, place });
encode_struct!(PathSpec {
    constellation,
    user,
    gateways,
    elevation_deg,
    gateway_elevation_deg,
    isl,
    weights,
    period,
    phase,
    date
});

impl Path {
    /// The path of this description; the one that is there already, where any part of the program has it.
    ///
    /// # Errors
    /// If there are no satellites, or none is ever in view of the user, or of the user and a gateway.
    pub fn new(spec: PathSpec) -> Result<Arc<Self>, PathError> {
        static KNOWN: Mutex<Vec<Weak<Path>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|path| path.strong_count() > 0);
        if let Some(path) = known.iter().filter_map(Weak::upgrade).find(|path| path.spec == spec) {
            return Ok(path);
        }
        let path = Arc::new(Self::build(spec)?);
        known.push(Arc::downgrade(&path));
        Ok(path)
    }

    fn build(spec: PathSpec) -> Result<Self, PathError> {
        let flying = |i: &usize| {
            let satellite = Satellite::new(&spec.constellation.satellites[*i]);
            satellite.filter(|satellite| satellite.position(spec.date).is_some()).map(|satellite| (*i, satellite))
        };
        let (kept, satellites): (Vec<usize>, Vec<Satellite>) =
            (0..spec.constellation.satellites.len()).collect::<Vec<_>>().iter().filter_map(flying).unzip();
        let constellation = Constellation {
            satellites: kept.iter().map(|i| spec.constellation.satellites[*i].clone()).collect(),
            shells: spec.constellation.shells.clone(),
            notes: Vec::new(),
        };
        let user = Station::new(spec.user);
        let least = spec.elevation_deg.to_radians();
        let launches: Vec<Option<u32>> = constellation.satellites.iter().map(|satellite| satellite.launched).collect();
        let path = Self {
            reaches: satellites.iter().map(|satellite| satellite.reach(user.radius(), least)).collect(),
            gateways: spec.gateways.iter().map(|gateway| Station::new(gateway.place)).collect(),
            youths: youths(&launches),
            mesh: spec.isl.then(|| Mesh::new(&constellation)),
            constellation,
            satellites,
            user,
            blocks: Mutex::default(),
            typical: OnceLock::new(),
            spec,
        };
        path.check()?;
        Ok(path)
    }

    /// Whether a satellite ever is in view of both ends, by the latitudes that it gets to.
    fn check(&self) -> Result<(), PathError> {
        let error = |part, message: String, fix: &str| Err(PathError { part, message, fix: fix.to_owned() });
        if self.satellites.is_empty() {
            let message = match self.spec.constellation.satellites.len() {
                0 => "there are no satellites".to_owned(),
                count => format!("all {count} satellites have decayed by {}", self.spec.date),
            };
            return error("elements", message, "use elements of a day near `date`");
        }
        let sees = |station: &Station, satellite: &Satellite, reach: f64| {
            station.geocentric_latitude().abs() <= satellite.bounds().northernmost_rad + reach
        };
        let mut of_user = self.satellites.iter().zip(&self.reaches);
        if !of_user.any(|(satellite, reach)| sees(&self.user, satellite, *reach)) {
            let least = self.spec.elevation_deg;
            let message = format!("no satellite ever rises to {least} degrees at latitude {}", self.spec.user.lat_deg);
            return error(
                "user",
                message,
                "move the user, lower `elevation_deg`, or add satellites of a higher inclination",
            );
        }
        let least = self.spec.gateway_elevation_deg.to_radians();
        let serves = |gateway: &Station| {
            self.satellites.iter().zip(&self.reaches).any(|(satellite, from_user)| {
                let reach = satellite.reach(gateway.radius(), least);
                let is_near = self.spec.isl || self.user.angle_to(gateway) <= from_user + reach;
                is_near && sees(gateway, satellite, reach) && (self.spec.isl || sees(&self.user, satellite, *from_user))
            })
        };
        if self.gateways.iter().any(serves) {
            return Ok(());
        }
        let message = "no satellite ever is in view of the user and of a gateway".to_owned();
        error(
            "gateways",
            message,
            "add a gateway nearer to the user, lower `gateway_elevation_deg`, or set `isl = true`",
        )
    }

    /// Returns its specification.
    pub fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// The satellites that have not decayed; their places here are their numbers in routes.
    pub fn constellation(&self) -> &Constellation {
        &self.constellation
    }

    /// Returns reasons to doubt it: satellites that have decayed, elements of another time.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.spec.constellation.notes.clone();
        let (all, flying) = (self.spec.constellation.satellites.len(), self.satellites.len());
        let day = self.spec.date.to_string();
        let day = day.split('T').next().unwrap_or_default();
        if flying < all {
            warnings.push(format!(
                "{} of {all} satellites have decayed by {day}, as their elements have it, and are left out",
                all - flying
            ));
        }
        let ages = self.constellation.satellites.iter().map(|s| self.spec.date.seconds_since(s.epoch).abs() / 86_400.0);
        let (oldest, old) =
            ages.fold((0.0, 0), |(oldest, old), age| (age.max(oldest), old + usize::from(age > FRESH_DAYS)));
        if old > 0 {
            let error_km = oldest * ERROR_KM_PER_DAY;
            let implies = if oldest < STALE_DAYS {
                format!(
                    "may be {error_km:.0} km ({:.2} ms) from where they are said to be",
                    error_km / LIGHT_KM_S * 1e3
                )
            } else {
                "may be anywhere on their orbits".to_owned()
            };
            warnings.push(format!(
                "the elements of {old} of {flying} satellites are up to {oldest:.0} days away from {day}: at an error of \
                 {ERROR_KM_PER_DAY} km per day, they {implies}; use elements of that day"
            ));
        }
        warnings
    }

    /// The slot in which an instant lies; slots are numbered from that which begins at `phase` of the day `date`.
    pub fn slot_at(&self, t: Utc) -> i64 {
        (t.as_nanos() - self.begin(0).as_nanos()).div_euclid(self.period_ns())
    }

    /// When a slot begins.
    pub fn begin(&self, slot: i64) -> Utc {
        (self.spec.date + self.spec.phase).plus_nanos(slot.saturating_mul(self.period_ns()))
    }

    /// The path of a slot; `None`: no satellite is in view of both ends from its begin to its end.
    pub fn route(&self, slot: i64) -> Option<Arc<Route>> {
        self.in_block(slot, |block, place| {
            block.routes[place].get_or_init(|| self.choose(slot, &block.candidates[place]).map(Arc::new)).clone()
        })
    }

    /// The mean delay of eight slots that are spread over the day; where none of them has a path, that of a satellite overhead.
    pub fn typical(&self) -> Time {
        *self.typical.get_or_init(|| {
            let instants = (0..8).map(|i| self.spec.date + Time::from_secs(3 * 3600 * i));
            let delay = |t: Utc| {
                let slot = self.slot_at(t);
                let candidates = self.candidates(&[self.begin(slot)]);
                self.choose(slot, &candidates[0]).map(|route| route.curve.at(0.0))
            };
            let delays: Vec<f64> = instants.filter_map(delay).collect();
            let overhead = || 2.0 * light_ns(self.satellites[0].bounds().highest_km - EQUATOR_KM);
            let mean = if delays.is_empty() { overhead() } else { delays.iter().sum::<f64>() / delays.len() as f64 };
            Time::from_nanos(mean.round() as u64)
        })
    }

    /// The satellites above the least elevation of the user as a slot begins, the highest first.
    pub fn sights(&self, slot: i64) -> Vec<Sight> {
        let candidates = self.in_block(slot, |block, place| block.candidates[place].clone());
        let mut sights: Vec<Sight> = candidates
            .into_iter()
            .filter_map(|satellite| self.sight(satellite, self.begin(slot)))
            .filter(|sight| sight.elevation_deg >= self.spec.elevation_deg)
            .collect();
        sights.sort_by(|a, b| b.elevation_deg.total_cmp(&a.elevation_deg));
        sights
    }

    /// A satellite as the user sees it, or would through the Earth; `None`: it has decayed by then.
    pub fn sight(&self, satellite: u32, t: Utc) -> Option<Sight> {
        let place = self.satellites[satellite as usize].position(t)?;
        let (elevation_deg, azimuth_deg, range_km) = self.spec.user.look(t, place);
        Some(Sight { satellite, elevation_deg, azimuth_deg, range_km })
    }

    /// Asks the block of a slot, which is made when it is first asked, at the place of the slot in it.
    fn in_block<T>(&self, slot: i64, ask: impl FnOnce(&Block, usize) -> T) -> T {
        let per_block = (BLOCK.as_nanos() as i64 / self.period_ns()).clamp(1, BLOCK_SLOTS);
        let (number, place) = (slot.div_euclid(per_block), slot.rem_euclid(per_block) as usize);
        let block = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default().clone();
        let block = block.get_or_init(|| {
            let begins: Vec<Utc> = (0..per_block).map(|i| self.begin(number.saturating_mul(per_block) + i)).collect();
            Block {
                candidates: self.candidates(&begins),
                routes: std::iter::repeat_with(OnceLock::new).take(begins.len()).collect(),
            }
        });
        ask(block, place)
    }

    fn period_ns(&self) -> i64 {
        (self.spec.period.as_nanos() as i64).max(1)
    }

    fn candidates(&self, begins: &[Utc]) -> Vec<Vec<u32>> {
        candidates(&self.satellites, &self.reaches, &self.user, begins, self.spec.period.as_secs_f64())
    }

    /// The best of the candidates that are in view from the begin of the slot to its end, and the way on from it.
    fn choose(&self, slot: i64, candidates: &[u32]) -> Option<Route> {
        let ends = [self.begin(slot), self.begin(slot + 1)];
        let least = self.spec.elevation_deg.to_radians();
        let views = ends.map(|t| self.user.at(t));
        let score = |satellite: u32| {
            let (_, sines) = self.in_view(satellite, ends, &views, libm::sin(least))?;
            let elevation = sines.iter().map(|sine| libm::asin(sine.min(1.0))).sum::<f64>() / 2.0;
            let share = (elevation - least) / (std::f64::consts::FRAC_PI_2 - least);
            Some((self.spec.weights.score(share, self.youths[satellite as usize], satellite, slot), satellite))
        };
        let mut scored: Vec<(f64, u32)> = candidates.iter().filter_map(|satellite| score(*satellite)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let gateways: Vec<[View; 2]> = self.gateways.iter().map(|gateway| ends.map(|t| gateway.at(t))).collect();
        let (chain, gateway) = match &self.mesh {
            None => scored.iter().find_map(|(_, i)| Some((vec![*i], self.gateway_of(*i, ends, &gateways)?.0)))?,
            Some(mesh) => self.way_on(mesh, &scored, slot, ends, &gateways)?,
        };
        let curve = self.curve(slot, &chain, gateway)?;
        Some(Route { satellites: chain, gateway, curve, period: self.spec.period })
    }

    /// The sum of a satellite's distances at both ends of a slot, and the sines of its elevations; `None`: one is too low.
    fn in_view(&self, satellite: u32, ends: [Utc; 2], views: &[View; 2], least_sine: f64) -> Option<(f64, [f64; 2])> {
        let satellite = &self.satellites[satellite as usize];
        let (first, begin) = views[0].range_and_sine(satellite.position(ends[0])?);
        if begin < least_sine {
            return None;
        }
        let (last, end) = views[1].range_and_sine(satellite.position(ends[1])?);
        (end >= least_sine).then_some((first + last, [begin, end]))
    }

    /// The nearest of the gateways that see a satellite from the begin of a slot to its end, and the sum of both distances, km.
    fn gateway_of(&self, satellite: u32, ends: [Utc; 2], gateways: &[[View; 2]]) -> Option<(u32, f64)> {
        let least_sine = libm::sin(self.spec.gateway_elevation_deg.to_radians());
        let seen = gateways.iter().enumerate().filter_map(|(i, views)| {
            self.in_view(satellite, ends, views, least_sine).map(|(distances, _)| (i as u32, distances))
        });
        seen.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The shortest way on over other satellites, from the best of the user's satellites that has one.
    fn way_on(
        &self,
        mesh: &Mesh,
        scored: &[(f64, u32)],
        slot: i64,
        ends: [Utc; 2],
        gateways: &[[View; 2]],
    ) -> Option<(Vec<u32>, u32)> {
        if scored.is_empty() {
            return None;
        }
        let middle = self.begin(slot).plus_nanos(self.period_ns() / 2);
        let places: Vec<Option<Vector>> = self.satellites.iter().map(|satellite| satellite.position(middle)).collect();
        // A satellite that is high enough at both ends of a slot is so in between.
        let least_sine = libm::sin(self.spec.gateway_elevation_deg.to_radians());
        let views: Vec<View> = self.gateways.iter().map(|gateway| gateway.at(middle)).collect();
        let is_near = |place: &Vector| views.iter().any(|view| view.range_and_sine(*place).1 >= least_sine);
        let exits: BTreeMap<u32, (u32, f64)> = (0_u32..)
            .zip(&places)
            .filter(|(_, place)| place.as_ref().is_some_and(is_near))
            .filter_map(|(i, _)| Some((i, self.gateway_of(i, ends, gateways)?)))
            .collect();
        let distances: BTreeMap<u32, f64> = exits.iter().map(|(i, (_, distances))| (*i, distances / 2.0)).collect();
        let chain = scored.iter().find_map(|(_, i)| mesh.shortest(&places, *i, &distances))?;
        let gateway = exits.get(chain.last()?)?.0;
        Some((chain, gateway))
    }

    /// The delay over a slot.
    fn curve(&self, slot: i64, chain: &[u32], gateway: u32) -> Option<Curve> {
        let half = self.period_ns() as f64 / 2.0;
        let mut delays = [0.0; crate::curve::POINTS];
        for (x, delay) in Curve::nodes().into_iter().zip(&mut delays) {
            let t = self.begin(slot).plus_nanos(libm::round(half * (1.0 + x)) as i64);
            let mut last = self.user.at(t).position;
            let mut length = 0.0;
            for satellite in chain {
                let place = self.satellites[*satellite as usize].position(t)?;
                length += norm(minus(place, last));
                last = place;
            }
            length += norm(minus(self.gateways[gateway as usize].at(t).position, last));
            *delay = light_ns(length);
        }
        Some(Curve::through(delays))
    }
}

impl Route {
    /// Propagation time of light that leaves at a time after the start of the slot.
    pub fn delay(&self, since_begin: Time) -> Time {
        let x = 2.0 * since_begin.as_nanos() as f64 / self.period.as_nanos().max(1) as f64 - 1.0;
        Time::from_nanos(libm::round(self.curve.at(x)).max(0.0) as u64)
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Encode for Path {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.spec.encode(out)
    }
}

/// In few words: a constellation has thousands of elements.
impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let satellites = self.satellites.len();
        f.debug_struct("Path").field("satellites", &satellites).field("user", &self.spec.user).finish_non_exhaustive()
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}; {}", self.part, self.message, self.fix)
    }
}

fn light_ns(km: f64) -> f64 {
    km / LIGHT_KM_S * 1e9
}

/// Time of the slots that are searched for candidates together: long enough that most satellites are put aside once.
const BLOCK: Time = Time::from_secs(960);
/// Most of them.
const BLOCK_SLOTS: i64 = 64;
/// Elements may be so old without a word, days.
const FRESH_DAYS: f64 = 7.0;
/// Drag, whose error grows with the square of the time, has moved satellites by whole orbits then, days.
const STALE_DAYS: f64 = 365.0;
/// The error of SGP4 grows by 1 to 3 km per day in low orbits (Vallado et al. 2006, section 1); the upper one.
const ERROR_KM_PER_DAY: f64 = 3.0;
