# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The reader of qlog: one transfer in the forms of several stacks, what held it, and damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from perigee.analysis.recordings import Run, analyze, kind_of
from perigee.errors import InputError

PAYLOAD, SIZE, ROUNDS, TRIP_MS = 1200, 1250, 4, 600.0
PER_ROUND, LOST = 100, 250
WINDOW = PER_ROUND * PAYLOAD
"""Flow control lets pass a round of the transfer."""

Moment = tuple[float, str, dict[str, Any]]


def _packet(number: int, *frames: dict[str, Any], kind: str = "1RTT") -> dict[str, Any]:
    return {"header": {"packet_type": kind, "packet_number": number}, "raw": {"length": SIZE}, "frames": list(frames)}


def _data(number: int, place: int, *, fin: bool = False) -> dict[str, Any]:
    return _packet(number, {"frame_type": "stream", "stream_id": 0, "offset": place * PAYLOAD, "fin": fin,
                            "raw": {"length": PAYLOAD + 4, "payload_length": PAYLOAD}})  # fmt: skip


def _transfer() -> list[Moment]:
    """A server's log: a window of flow control each round trip; one packet is lost, and sent again at the end."""
    granted = {"initiator": "remote", "initial_max_data": 10**9, "initial_max_stream_data_bidi_local": WINDOW}
    opening = {"frame_type": "crypto", "offset": 0, "raw": {"length": 300}}
    asked = {"frame_type": "stream", "stream_id": 0, "offset": 0, "raw": {"length": 40}}
    moments: list[Moment] = [
        (0.0, "quic:packet_received", _packet(0, opening, kind="initial")),
        (0.0, "quic:parameters_set", granted),
        (TRIP_MS, "quic:packet_received", _packet(1, asked)),
        (TRIP_MS, "quic:recovery_metrics_updated", {"congestion_window": 1000 * SIZE}),
    ]  # fmt: skip
    for turn in range(1, ROUNDS + 1):
        first = (turn - 1) * PER_ROUND
        for place in range(first, first + PER_ROUND):
            at = turn * TRIP_MS + (place - first) / 10
            moments.append((at, "quic:packet_sent", _data(place, place, fin=place == ROUNDS * PER_ROUND - 1)))
        ranges = (
            [[0, first + PER_ROUND - 1]]
            if first + PER_ROUND <= LOST
            else [[0, LOST - 1], [LOST + 1, first + PER_ROUND - 1]]
        )
        answer = [{"frame_type": "ack", "ack_delay": 0.0, "acked_ranges": ranges},
                  {"frame_type": "max_stream_data", "stream_id": 0, "maximum": (turn + 1) * WINDOW}]  # fmt: skip
        back = (turn + 1) * TRIP_MS
        moments.append((back, "quic:packet_received", _packet(1 + turn, *answer)))
        moments.append((back, "quic:recovery_metrics_updated", {"smoothed_rtt": TRIP_MS, "bytes_in_flight": 0}))
        if first <= LOST < first + PER_ROUND:
            moments.append((back, "quic:packet_lost", {"header": {"packet_type": "1RTT", "packet_number": LOST}}))
    end = (ROUNDS + 1) * TRIP_MS
    moments.append((end, "quic:packet_sent", _data(ROUNDS * PER_ROUND, LOST)))
    whole = [[0, LOST - 1], [LOST + 1, ROUNDS * PER_ROUND]]
    moments.append((end + TRIP_MS, "quic:packet_received", _packet(9, {"frame_type": "ack", "acked_ranges": whole})))
    return moments


def _sequence(moments: list[Moment], separator: str = "\x1e") -> str:
    about = {"vantage_point": {"type": "server"}, "common_fields": {"group_id": "c0ffee"}, "event_schemas": ["urn:x"]}
    head = {"file_schema": "urn:ietf:params:qlog:file:sequential", "serialization_format": "application/qlog+json-seq",
            "trace": about}  # fmt: skip
    records = [head, *({"time": at, "name": name, "data": data} for at, name, data in moments)]
    return "".join(f"{separator}{json.dumps(record)}\n" for record in records)


def _lines(moments: list[Moment]) -> str:
    return _sequence(moments, "").replace(
        '"file_schema": "urn:ietf:params:qlog:file:sequential"', '"qlog_version": "0.4"'
    )


def _document(moments: list[Moment]) -> str:
    """As aioquic writes: one object of version 0.3, names of before, Unix time in ms, the vantage point last."""
    events = [{"data": data, "name": "transport:" + name[5:], "time": 1.7e12 + at} for at, name, data in moments]
    trace = {"common_fields": {"ODCID": "c0ffee"}, "events": events, "vantage_point": {"type": "server"}}
    text = json.dumps({"qlog_format": "JSON", "qlog_version": "0.3", "traces": [trace]})
    return text.replace('"congestion_window"', '"cwnd"').replace('"initiator"', '"owner"')


def _table(moments: list[Moment]) -> str:
    """As picoquic and older mvfst write: rows of microseconds, types in capitals, numbers as text."""
    rows = []
    for at, name, data in moments:
        told = json.loads(json.dumps(data).replace('"stream"', '"STREAM"').replace('"stream_id"', '"id"'))
        if "raw" in told:
            told["header"]["packet_size"] = told.pop("raw")["length"]
            told["packet_type"] = told["header"].pop("packet_type")
        for frame in told.get("frames", []):
            if "raw" in frame:
                raw = frame.pop("raw")
                frame |= {"length": str(raw.get("payload_length", raw["length"]))}
        if "smoothed_rtt" in told:
            told["smoothed_rtt"] = round(1000 * TRIP_MS)
        kind = "METRIC_UPDATE" if "metrics" in name else name[5:].upper()
        rows.append([str(round(1000 * at)), "RECOVERY" if "metrics" in name else "TRANSPORT", kind, told])
    about: dict[str, Any] = {
        "configuration": {"time_units": "us"},
        "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
    }
    trace = {
        "vantage_point": {"type": "SERVER"},
        "common_fields": {"group_id": "c0ffee"},
        **about,
        "events": [*rows, []],
    }
    return json.dumps({"qlog_version": "draft-00", "traces": [trace]})


FORMS = {"sequence": _sequence, "lines": _lines, "document": _document, "table": _table}


def _read(folder: Path, text: str, name: str = "server.sqlog") -> Run:
    (folder / name).write_text(text)
    found = analyze([folder / name])
    assert found is not None
    return found.runs[0]


def test_a_transfer_is_measured_from_its_senders_log(tmp_path: Path) -> None:
    run = _read(tmp_path, _sequence(_transfer()))
    flow = run.tables["flows"].row(0, named=True)
    assert (flow["flow"], flow["from_node"], flow["outcome"]) == ("c0ffee.down", "server", "completed")
    assert flow["received_bytes"] == ROUNDS * WINDOW
    assert (flow["sent_packets"], flow["retransmitted_packets"]) == (ROUNDS * PER_ROUND + 1, 1)
    assert flow["handshake_ms"] == TRIP_MS
    # A packet that ends a round is acknowledged 9.9 ms sooner than the first would be.
    assert flow["rtt_min_ms"] == pytest.approx(TRIP_MS - 9.9)
    losses = run.tables["losses"].select("t_s", "packets", "since_packets", "offset_bytes", "how").row(0)
    assert losses == pytest.approx((3 * TRIP_MS / 1000 + 0.005, 1, LOST + 1, LOST * PAYLOAD, "stack"))
    seen = run.tables["connections"].row(0, named=True)
    assert (seen["side"], seen["segment_bytes"], seen["receive_window_max_bytes"]) == ("sender", PAYLOAD, WINDOW)
    series = run.tables["series"]
    # Rounds begin at 0.6, 1.2, 1.8 and 2.4 s, and the lost packet is sent again at 3.0 s.
    assert series["sent_packets"].to_list() == [100, 200, 101, 0]
    assert series["retransmitted_packets"].to_list() == [0, 0, 1, 0]
    assert series["cwnd_packets"].to_list() == [1000] * 4
    assert series["srtt_ms"].to_list() == [None, TRIP_MS, TRIP_MS, TRIP_MS]


def test_flow_control_that_held_a_transfer_is_said_in_numbers(tmp_path: Path) -> None:
    run = _read(tmp_path, _sequence(_transfer()))
    # Three rounds of waiting for credit; the last has its end sent.
    assert run.tables["flows"]["rwnd_limited_s"][0] == pytest.approx(3 * (TRIP_MS - 9.9) / 1000)
    assert run.notes == (
        "flow control held it for 1.8 of 3.6 s: its window of 0.12 MB allows 1.6 Mbit/s over the shortest round trip "
        "of 590 ms",
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_several_stacks_say_the_same(form: str, tmp_path: Path) -> None:
    expected = _read(tmp_path, _sequence(_transfer())).tables
    found = _read(tmp_path, FORMS[form](_transfer()), "other.qlog").tables
    own = ("engine", "study", "capture", "began_unix_s")
    for name in ("flows", "series", "losses", "connections"):
        left, right = (tables[name].drop(own, strict=False) for tables in (expected, found))
        # Unix time in ms has a quarter of a microsecond.
        assert_frame_equal(left, right, abs_tol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_a_log_that_is_cut_is_read_as_far_as_it_goes(form: str, tmp_path: Path) -> None:
    text = FORMS[form](_transfer())
    run = _read(tmp_path, text[: len(text) // 2], "cut.qlog")
    flow = run.tables["flows"].row(0, named=True)
    assert 0 < flow["received_bytes"] < ROUNDS * WINDOW
    assert flow["outcome"] == "stopped"
    assert any("cut off" in note for note in run.notes)


def test_the_receivers_log_has_what_arrived_and_what_its_window_allows(tmp_path: Path) -> None:
    swapped = [
        (at, name.replace("sent", "?").replace("received", "sent").replace("?", "received"),
         {**data, "initiator": "local"} if "initiator" in data else data)
        for at, name, data in _transfer() if "lost" not in name
    ]  # fmt: skip
    run = _read(tmp_path, _sequence(swapped).replace('"server"', '"client"'))
    flow = run.tables["flows"].row(0, named=True)
    assert (flow["flow"], flow["received_bytes"], flow["rwnd_limited_s"]) == ("c0ffee.down", ROUNDS * WINDOW, None)
    assert run.tables["connections"].row(0, named=True)["side"] == "receiver"
    assert run.tables["connections"]["receive_window_max_bytes"][0] == WINDOW


def test_packets_without_frames_are_counted_by_their_sizes(tmp_path: Path) -> None:
    bare = [
        (at, name, {key: value for key, value in data.items() if key != "frames"}) for at, name, data in _transfer()
    ]
    acknowledged = [*bare, (9_000.0, "quic:packets_acked", {"packet_numbers": list(range(50))})]
    run = _read(tmp_path, _sequence(acknowledged))
    flow = run.tables["flows"].row(0, named=True)
    assert (flow["received_bytes"], flow["retransmitted_packets"]) == (50 * SIZE, None)
    assert any("frames are not in it" in note for note in run.notes)


def test_an_idle_connection_among_others_is_a_note(tmp_path: Path) -> None:
    for name, moments in (("a.sqlog", _transfer()[:2]), ("b.sqlog", _transfer())):
        (tmp_path / name).write_text(_sequence(moments))
    found = analyze([tmp_path / "a.sqlog", tmp_path / "b.sqlog"])
    assert found is not None
    (run,) = found.runs
    assert run.tables["flows"].height == 1
    assert "a.sqlog: no stream carried anything in it" in run.notes


def test_what_is_no_qlog_or_has_nothing_is_refused(tmp_path: Path) -> None:
    for name, text, said in (
        ("a.qlog", "", "no qlog"),
        ("b.qlog", '{"start": {}}', "file_schema"),
        ("c.sqlog", "\x1enonsense\n", "none of its records"),
        ("d.qlog", '{"qlog_version": "0.3", "traces": [{"events": []}]}', "without an event"),
        ("e.qlog", _sequence(_transfer()[:2]), "no stream carried anything"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=said):
            analyze([tmp_path / name])
    (tmp_path / "f.json").write_text(_document(_transfer()))
    assert kind_of(tmp_path / "f.json") == "qlog"


def test_damage_ends_in_a_note_or_a_sentence(tmp_path: Path) -> None:
    draw = random.Random(7)  # noqa: S311 - a repeatable choice of damage
    path = tmp_path / "damaged.qlog"
    for form in FORMS.values():
        whole = form(_transfer()[::7])
        for _ in range(40):
            place = draw.randrange(len(whole))
            middle = draw.choice(["", "9" * 30, "null", "-1", "[[", '"', "}", "1e400"])
            path.write_text(whole[:place] + middle + whole[place + draw.randrange(40) :])
            try:
                analyze([path])
            except InputError as error:
                assert str(error).startswith("damaged.qlog")
