//! Keys and reading of adaptive video, video calls and web pages.

use perigee_results::Frames;
use perigee_text::{Reader, StrictError};
use perigee_traffic::{Adaptation, Call, Http, Page, PageKind, Pages, Video};
use perigee_units::{Bytes, Rate, Time};

use crate::packets::{fits, packet, Packets};

/// A video, with the defaults of the model.
pub(crate) fn video(table: &Reader<'_>, flow: &str) -> Result<Video, StrictError> {
    let ladder = table.table.get("ladder")?.unwrap_or_else(|| LADDER.map(|kbps| Rate::from_bps(kbps * 1000)).to_vec());
    let algorithm = Adaptation::parse(&table.get::<String>("algorithm")?).unwrap_or(Adaptation::Bola);
    let (segment, buffer, startup): (Time, Time, Time) =
        (table.get("segment")?, table.get("buffer")?, table.get("startup")?);
    if buffer < segment * 2 {
        let message = format!("flow `{flow}`: a buffer of {buffer} holds less than two segments of {segment}");
        let place = if table.table.has("buffer") { "buffer" } else { "segment" };
        return Err(table.error(place, message, format!("set buffer = \"{}\" or more", segment * 2)));
    }
    if startup > buffer {
        let message = format!("flow `{flow}`: `startup` = {startup} is above buffer = {buffer}");
        return Err(table.error("startup", message, "lower it, or raise buffer"));
    }
    let request = table.table.get("request")?.unwrap_or(REQUEST);
    Ok(Video { duration: table.get("duration")?, segment, ladder, algorithm, buffer, startup, request })
}

/// The pages that a browser loads.
pub(crate) fn pages(table: &Reader<'_>, flow: &str) -> Result<Pages, StrictError> {
    let listed: Option<Vec<Bytes>> = table.table.get("responses")?;
    if listed.is_some() && table.table.has("page") {
        let message = format!("flow `{flow}` has both `page` and `responses`");
        return Err(table.error("responses", message, "remove one of them"));
    }
    let kind = PageKind::parse(&table.get::<String>("page")?).unwrap_or(PageKind::Median);
    let (page, rounds) = (listed.map_or(Page::Drawn(kind), Page::Listed), table.get("rounds")?);
    if rounds > page.most_rounds() {
        let (most, message) =
            (page.most_rounds(), format!("flow `{flow}`: {page} have no objects for `rounds` = {rounds}"));
        return Err(table.error("rounds", message, format!("lower it to {most}, or load pages of more objects")));
    }
    Ok(Pages {
        page,
        rounds,
        http: Http::parse(&table.get::<String>("protocol")?).unwrap_or(Http::Multiplexed),
        tls: table.get("tls")?,
        request: table.table.get("request")?.unwrap_or(REQUEST),
        service: table.get("service")?,
        pause: table.get("pause")?,
    })
}

/// A call; its frames are limited, since each takes memory.
pub(crate) fn call(table: &Reader<'_>, packets: Packets<'_>) -> Result<Call, StrictError> {
    let (flow, headers) = (packets.flow, u64::from(packets.ip.header_bytes()) + 8);
    let largest = if table.table.has("packet") { packet(table, packets)? } else { PACKET };
    let (rate, duration, per_second): (Rate, Time, u32) =
        (table.get("rate")?, table.get("duration")?, table.get("frames_per_s")?);
    let frame = Call::frame_bytes(rate, per_second);
    let per_frame = frame.div_ceil(largest.as_u64());
    let (smallest, frames) = (frame / per_frame.max(1), duration.as_secs_f64() * f64::from(per_second));
    if smallest < headers {
        let message = format!("flow `{flow}`: frames of {frame} B have no room for the headers of their packets");
        return Err(table.error("rate", message, "raise it, or lower frames_per_s"));
    }
    let Some(per_frame) = u16::try_from(per_frame).ok().filter(|packets| *packets <= MAX_PACKETS) else {
        let message = format!("flow `{flow}`: frames of {frame} B have {per_frame} packets");
        return Err(table.error("rate", message, format!("lower it, or raise packet, down to {MAX_PACKETS} packets")));
    };
    if frames.max(frames * f64::from(per_frame) / 40.0) > MAX_FRAMES {
        let message = format!("flow `{flow}` has {frames:.0} frames of {per_frame} packets");
        return Err(table.error("duration", message, "shorten it, down to 100 million frames of 40 packets"));
    }
    fits(table, Bytes::new(frame.div_ceil(u64::from(per_frame))), packets)?;
    let (deadline, warmup) = (table.get("deadline")?, table.get("warmup")?);
    Ok(Call { rate, duration, frames: Frames { per_second, packets: per_frame, deadline, warmup } })
}

/// Bit rates of the ladder that Netflix used for every title before December 2015, kbit/s (Aaron, Li, Manohara, De Cock and Ronca,
/// Per-Title Encode Optimization, Netflix Technology Blog, 14 December 2015).
const LADDER: [u64; 10] = [235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800];
/// Size of a request for a segment or an object, assumed.
const REQUEST: Bytes = Bytes::new(400);
/// Largest packet of a call, as in the real-time stacks of browsers.
const PACKET: Bytes = Bytes::new(1200);
/// Maximum packets of a frame.
const MAX_PACKETS: u16 = 1000;
/// Maximum frames of a call: with 40 packets each, the numbers of its packets fit in 32 bits.
const MAX_FRAMES: f64 = 1e8;
