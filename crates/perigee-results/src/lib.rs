//! Result tables, and the measurements that fill them, for all engines.
//!
//! [`Tables`] holds the tables of runs; each column is declared once, with its type, unit and meaning. A [`Meter`] measures one
//! flow: an engine reports what arrives and which round trips the sender measures, the meter writes the flow's rows. A
//! [`LinkLog`] counts the intervals of one link. Both take instants and counts as arguments: this crate knows neither
//! packets nor links nor congestion controls.

mod arrow;
mod bins;
mod call;
mod datagrams;
mod e_model;
mod exchanges;
mod flatbuffer;
mod histogram;
mod ipc;
mod limits;
mod link_log;
mod measure;
mod meter;
mod observation;
mod outcome;
mod receiver_capture;
mod responses;
mod room;
mod sender_capture;
mod standing;
mod states;
mod table;
mod tables;
mod trace;
mod voice;

pub use arrow::{columns, ArrowColumn, Buffers};
pub use call::{CallMeter, Frames};
pub use datagrams::{DatagramMeter, Measured};
pub use e_model::{opinion, rating, Codec};
pub use exchanges::ExchangeLog;
pub use histogram::Histogram;
pub use ipc::stream;
pub use limits::SenderLimits;
pub use link_log::{write_links, LinkCounters, LinkLog, LinkReading};
pub use measure::{Amount, Measure, Startup, StatesOf};
pub use meter::{FlowId, Meter, SenderCounts, SenderState};
pub use observation::{write_observation, Observation, SenderSample};
pub use outcome::Outcome;
pub use responses::{Classes, ResponseLog, Transaction, SAMPLE};
pub use room::RowBytes;
pub use sender_capture::{CaptureRules, SenderCapture};
pub use standing::Standing;
pub use states::{StateRow, StateRows, States, WatchedCells, WatchedColumn};
pub use table::{CellType, Column, Name, Table, Values, TABLES_VERSION};
pub use tables::{
    CallRow, Calls, CaptureTables, ConnectionRow, Connections, EventRow, Events, ExchangeRow, Exchanges, FlowRow,
    Flows, GapRow, Gaps, LinkRow, Links, LossRow, Losses, MilestoneRow, Milestones, PageRow, Pages, Proxies, ProxyRow,
    Quic, QuicRow, ReleaseRow, Releases, ResponseRow, Responses, RoundRow, Rounds, Rtt, RttRow, SegmentRow, Segments,
    Series, SeriesRow, Tables, VideoRow, Videos, Voice, VoiceRow,
};
pub use trace::Trace;
pub use voice::{Talk, VoiceMeter};
