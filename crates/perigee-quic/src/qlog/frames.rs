//! Frames (RFC 9000, section 19; draft-ietf-quic-ack-frequency, sections 4 and 5) in the words of qlog.

use std::fmt::Write;

use super::packets::{Bytes, Hex};

/// Writes the frames of a packet, each as an object behind the one before.
pub(super) fn write(payload: &[u8], out: &mut String) {
    let mut bytes = Bytes(payload);
    let mut is_first = true;
    while let Some(kind) = bytes.number() {
        if !is_first {
            out.push(',');
        }
        is_first = false;
        let start = out.len();
        if frame(kind, &mut bytes, out).is_none() {
            // A frame that is not known has no length: it hides those behind it.
            out.truncate(start);
            put(out, format_args!(r#"{{"frame_type":"unknown","frame_type_bytes":{kind}}}"#));
            return;
        }
    }
}

/// Writes one frame of this type; `None` if it is not known or cut.
fn frame(kind: u64, bytes: &mut Bytes<'_>, out: &mut String) -> Option<()> {
    match kind {
        0x00 => {
            let zeros = bytes.0.iter().take_while(|byte| **byte == 0).count();
            bytes.take(zeros)?;
            put(out, format_args!(r#"{{"frame_type":"padding","raw":{{"length":{}}}}}"#, zeros + 1));
        }
        0x01 => plain("ping", out),
        0x02 | 0x03 => acknowledgement(kind == 0x03, bytes, out)?,
        0x04 => {
            let (stream, code, size) = (bytes.number()?, bytes.number()?, bytes.number()?);
            put(
                out,
                format_args!(
                    r#"{{"frame_type":"reset_stream","stream_id":{stream},"error":"unknown","error_code":{code},"final_size":{size}}}"#
                ),
            );
        }
        0x05 => {
            let (stream, code) = (bytes.number()?, bytes.number()?);
            put(
                out,
                format_args!(
                    r#"{{"frame_type":"stop_sending","stream_id":{stream},"error":"unknown","error_code":{code}}}"#
                ),
            );
        }
        0x06 => {
            let (offset, data) = (bytes.number()?, bytes.block()?.len());
            put(out, format_args!(r#"{{"frame_type":"crypto","offset":{offset},"raw":{{"payload_length":{data}}}}}"#));
        }
        0x07 => {
            let token = bytes.block()?.len();
            put(out, format_args!(r#"{{"frame_type":"new_token","token":{{"raw":{{"length":{token}}}}}}}"#));
        }
        0x08..=0x0f => stream(kind, bytes, out)?,
        0x10 => numbers("max_data", &["maximum"], bytes, out)?,
        0x11 => numbers("max_stream_data", &["stream_id", "maximum"], bytes, out)?,
        0x12 | 0x13 => streams("max_streams", "maximum", kind, bytes, out)?,
        0x14 => numbers("data_blocked", &["limit"], bytes, out)?,
        0x15 => numbers("stream_data_blocked", &["stream_id", "limit"], bytes, out)?,
        0x16 | 0x17 => streams("streams_blocked", "limit", kind, bytes, out)?,
        0x18 => {
            let (number, retired, length) = (bytes.number()?, bytes.number()?, bytes.byte()?);
            let (identifier, token) = (Hex(bytes.take(length.into())?), Hex(bytes.take(RESET_TOKEN)?));
            put(
                out,
                format_args!(
                    "{{\"frame_type\":\"new_connection_id\",\"sequence_number\":{number},\"retire_prior_to\":{retired},\
                     \"connection_id\":\"{identifier}\",\"stateless_reset_token\":\"{token}\"}}"
                ),
            );
        }
        0x19 => numbers("retire_connection_id", &["sequence_number"], bytes, out)?,
        0x1a | 0x1b => {
            let name = if kind == 0x1a { "path_challenge" } else { "path_response" };
            put(out, format_args!(r#"{{"frame_type":"{name}","data":"{}"}}"#, Hex(bytes.take(8)?)));
        }
        0x1c | 0x1d => {
            let code = bytes.number()?;
            let space = if kind == 0x1c { "transport" } else { "application" };
            if kind == 0x1c {
                bytes.number()?;
            }
            bytes.block()?;
            put(
                out,
                format_args!(r#"{{"frame_type":"connection_close","error_space":"{space}","error_code":{code}}}"#),
            );
        }
        0x1e => plain("handshake_done", out),
        0x1f => plain("immediate_ack", out),
        0xaf => {
            let names = ["sequence_number", "ack_eliciting_threshold", "request_max_ack_delay", "reordering_threshold"];
            numbers("ack_frequency", &names, bytes, out)?;
        }
        _ => return None,
    }
    Some(())
}

/// ACK, with the counts of marks.
fn acknowledgement(has_marks: bool, bytes: &mut Bytes<'_>, out: &mut String) -> Option<()> {
    let (mut last, delay, further) = (bytes.number()?, bytes.number()?, bytes.number()?);
    let mut ranges = Vec::new();
    for place in 0..=further {
        if place > 0 {
            last = last.checked_sub(bytes.number()? + 2)?;
        }
        let first = last.checked_sub(bytes.number()?)?;
        ranges.push((first, last));
        last = first;
    }
    // In units of 8 us, the exponent by default.
    let delay_us = delay.checked_mul(8)?;
    put(out, format_args!(r#"{{"frame_type":"ack","ack_delay":{}.{:03}"#, delay_us / 1000, delay_us % 1000));
    out.push_str(r#","acked_ranges":["#);
    for (place, (first, last)) in ranges.iter().rev().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        put(out, format_args!("{comma}[{first},{last}]"));
    }
    out.push(']');
    if has_marks {
        for name in ["ect0", "ect1", "ce"] {
            put(out, format_args!(r#","{name}":{}"#, bytes.number()?));
        }
    }
    out.push('}');
    Some(())
}

fn stream(kind: u64, bytes: &mut Bytes<'_>, out: &mut String) -> Option<()> {
    let stream = bytes.number()?;
    let offset = if kind & 0x04 > 0 { bytes.number()? } else { 0 };
    let data = if kind & 0x02 > 0 { bytes.block()? } else { bytes.take(bytes.0.len())? };
    let (fin, length) = (kind & 0x01 > 0, data.len());
    put(
        out,
        format_args!(
            r#"{{"frame_type":"stream","stream_id":{stream},"offset":{offset},"fin":{fin},"raw":{{"payload_length":{length}}}}}"#
        ),
    );
    Some(())
}

/// A frame that is numbers with these names.
fn numbers(name: &str, keys: &[&str], bytes: &mut Bytes<'_>, out: &mut String) -> Option<()> {
    put(out, format_args!(r#"{{"frame_type":"{name}""#));
    for key in keys {
        put(out, format_args!(r#","{key}":{}"#, bytes.number()?));
    }
    out.push('}');
    Some(())
}

/// A frame on the streams of a type, whose last bit says which.
fn streams(name: &str, key: &str, kind: u64, bytes: &mut Bytes<'_>, out: &mut String) -> Option<()> {
    let streams = if kind & 1 == 0 { "bidirectional" } else { "unidirectional" };
    let count = bytes.number()?;
    put(out, format_args!(r#"{{"frame_type":"{name}","stream_type":"{streams}","{key}":{count}}}"#));
    Some(())
}

fn plain(name: &str, out: &mut String) {
    put(out, format_args!(r#"{{"frame_type":"{name}"}}"#));
}

/// Appends to a text, which cannot fail.
pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

const RESET_TOKEN: usize = 16;
