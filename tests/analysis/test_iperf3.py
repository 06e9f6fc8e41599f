# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The reader of iperf3's JSON: both sides or one, TCP and UDP, several versions, damaged files."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from perigee.analysis.iperf3 import BLIND, MORE_LOST, MUTE, UNHEARD, WRITTEN, read
from perigee.analysis.log import Log, tables
from perigee.errors import InputError

SECOND = 1_000_050
"""Intervals end a little late, us."""
MSS = 1448


def _interval(number: int, *streams: dict[str, Any]) -> dict[str, Any]:
    times = {"start": (number - 1) * SECOND / 1e6, "end": number * SECOND / 1e6, "seconds": SECOND / 1e6}
    whole = [{"socket": 5 + 2 * place, **times, "omitted": False, **stream} for place, stream in enumerate(streams)]
    return {"streams": whole, "sum": {**times, "bytes": sum(stream["bytes"] for stream in streams)}}


def _start(*, reverse: bool, size: int = 0, streams: int = 1, protocol: str = "TCP") -> dict[str, Any]:
    connected = [
        {"socket": 5 + 2 * place, "local_host": "10.0.0.1", "local_port": 40000 + place,
         "remote_host": "10.0.0.2", "remote_port": 5201}
        for place in range(streams)
    ]  # fmt: skip
    begun = {"protocol": protocol, "num_streams": streams, "blksize": 1000 if protocol == "UDP" else 131072,
             "omit": 0, "duration": 0 if size else 3, "bytes": size, "blocks": 0, "reverse": int(reverse)}  # fmt: skip
    return {"connected": connected, "version": "iperf 3.12", "timestamp": {"timesecs": 1_700_000_000},
            "tcp_mss_default": MSS, "test_start": begun}  # fmt: skip


def _server(start: dict[str, Any], shift: int = 0) -> dict[str, Any]:
    swapped = [
        {"socket": about["socket"] + shift, "local_port": about["remote_port"], "remote_port": about["local_port"]}
        for about in start["connected"]
    ]
    return {**start, "connected": swapped, "accepted_connection": {"host": "10.0.0.1", "port": 39999}}


def _received(sizes: list[int], sender: bool | None = False) -> list[dict[str, Any]]:
    said = {} if sender is None else {"sender": sender}
    return [_interval(number, {"bytes": size, **said}) for number, size in enumerate(sizes, 1)]


def _sent(sizes: list[int]) -> list[dict[str, Any]]:
    return [
        _interval(
            number,
            {"bytes": size, "retransmits": number - 1, "snd_cwnd": 10 * number * MSS, "rtt": 600_000 + 1000 * number,
             "pmtu": 1500, "sender": True},
        )
        for number, size in enumerate(sizes, 1)
    ]  # fmt: skip


def _end(sent: int, received: int, *, retransmits: int | None = 3, socket: int = 5) -> dict[str, Any]:
    sender = {"socket": socket, "start": 0, "end": 3.0, "seconds": 3.0, "bytes": sent, "sender": True}
    if retransmits is not None:
        sender["retransmits"] = retransmits
    receiver = {"socket": socket, "start": 0, "end": 3.2, "seconds": 3.0, "bytes": received}
    return {"streams": [{"sender": sender, "receiver": receiver}], "sender_tcp_congestion": "hybla"}


def download(*, both: bool = True) -> dict[str, Any]:
    """6 MB with `-R -n`, 1, 2 and 3 MB in three seconds."""
    start = _start(reverse=True, size=6_000_000)
    end = _end(6_000_000, 6_000_000)
    end["streams"][0]["receiver"]["end"] = 3 * SECOND / 1e6
    document = {"start": start, "intervals": _received([1_000_000, 2_000_000, 3_000_000]), "end": end}
    if both:
        document["server_output_json"] = {
            "start": _server(start), "intervals": _sent([2_000_000, 2_000_000, 2_000_000]),
            "end": _end(6_000_000, 0),
        }  # fmt: skip
    return document


def upload() -> dict[str, Any]:
    """The client's side of three seconds of sending: 7 MB written, 6 MB arrived."""
    return {"start": _start(reverse=False), "intervals": _sent([3_000_000, 2_000_000, 2_000_000]),
            "end": _end(7_000_000, 6_000_000)}  # fmt: skip


def one(document: object) -> Log:
    (test,) = read(json.dumps(document), "a.json")
    return test


def rows(document: object, table: str = "flows") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables(one(document), "a", "a.json")[0][table].to_dicts()
    return found


def test_both_sides_of_a_download_give_arrivals_round_trips_windows_and_packets() -> None:
    assert one(download()).notes == ()
    (row,) = rows(download())
    assert (row["from_node"], row["to_node"], row["cc"], row["completed"]) == ("server", "client", "hybla", True)
    assert (row["received_bytes"], row["retransmitted_packets"]) == (6_000_000, 3)
    assert row["sent_packets"] == -(-6_000_000 // MSS) + 3
    assert row["goodput_mbps"] == pytest.approx(16, rel=1e-3)
    assert row["steady_goodput_mbps"] == pytest.approx(24, rel=1e-3)
    assert row["rtt_mean_ms"] == pytest.approx(602)
    series = rows(download(), "series")
    assert [row["cwnd_packets"] for row in series[:3]] == [10, 20, 30]
    assert [row["rtt_mean_ms"] for row in series[:3]] == [601, 602, 603]
    assert [round(row["goodput_mbps"]) for row in series[:3]] == [8, 16, 24]


def test_what_the_other_side_knows_is_empty_without_it() -> None:
    document = download(both=False)
    assert one(document).notes == (BLIND,)
    (row,) = rows(document)
    assert (row["rtt_mean_ms"], row["rto_count"], row["steady_retransmitted_packets"]) == (None, None, None)
    assert row["retransmitted_packets"] == 3
    assert row["steady_goodput_mbps"] == pytest.approx(24, rel=1e-3)
    assert {row["cwnd_packets"] for row in rows(document, "series")} == {None}


def test_of_an_upload_the_whole_is_the_receivers_and_the_course_the_senders() -> None:
    assert one(upload()).notes == (WRITTEN,)
    (row,) = rows(upload())
    assert (row["from_node"], row["received_bytes"], row["duration_s"]) == ("client", 6_000_000, 3.2)
    assert row["startup_s"] is None
    assert row["steady_retransmitted_packets"] == 3
    assert rows(upload(), "series")[-1]["acked_bytes"] == 6_000_000


def test_a_sender_that_says_little_is_no_sender_elsewhere() -> None:
    document = upload()
    for interval in document["intervals"]:
        for key in ("rtt", "snd_cwnd", "retransmits", "pmtu"):
            del interval["streams"][0][key]
    assert one(document).notes == (WRITTEN, MUTE)
    assert rows(document)[0]["steady_retransmitted_packets"] is None


def test_a_servers_log_of_several_tests_is_read_as_several() -> None:
    server = download()["server_output_json"]
    tests = read(json.dumps(server) + "\n" + json.dumps(server, indent=1), "server.log")
    assert [test.flows[0].upload for test in tests] == [False, False]
    assert tests[0].notes == (WRITTEN,)
    assert tests[0].flows[0].seen.arrivals[-1][1] == 6_000_000


def test_several_streams_are_several_flows_each_with_its_other_side() -> None:
    start = _start(reverse=True, streams=2)
    document = {
        "start": start,
        "intervals": [_interval(1, {"bytes": 1000, "sender": False}, {"bytes": 3000, "sender": False})],
        "end": {"streams": [_end(1000, 1000)["streams"][0], _end(3000, 3000, socket=7)["streams"][0]]},
        "server_output_json": {
            "start": _server(start, shift=1),
            # The server names its second stream first.
            "intervals": [{"streams": [
                {"socket": 8, "end": 1.0, "seconds": 1.0, "bytes": 3000, "rtt": 2000, "sender": True},
                {"socket": 6, "end": 1.0, "seconds": 1.0, "bytes": 1000, "rtt": 1000, "sender": True},
            ]}],
        },
    }  # fmt: skip
    found = rows(document)
    assert [row["flow"] for row in found] == ["stream.1", "stream.2"]
    assert [(row["received_bytes"], row["rtt_mean_ms"]) for row in found] == [(1000, 1.0), (3000, 2.0)]


def test_udp_has_its_losses_and_no_window() -> None:
    start = _start(reverse=False, protocol="UDP")
    sums = {"socket": 5, "start": 0, "end": 3.0, "bytes": 300_000, "packets": 300, "lost_packets": 10, "jitter_ms": 0.5}
    document = {
        "start": start,
        "intervals": [_interval(n, {"bytes": 100_000, "packets": 100, "sender": True}) for n in (1, 2, 3)],
        "end": {"streams": [{"udp": sums}]},
    }  # fmt: skip
    (row,) = rows(document)
    assert (row["kind"], row["cc"], row["sent_packets"], row["lost_packets"]) == ("udp", "", 300, 10)
    assert (row["received_bytes"], row["jitter_ms"], row["retransmitted_packets"]) == (290_000, None, None)
    received = [
        _interval(n, {"bytes": size, "packets": 100, "lost_packets": 5, "jitter_ms": n / 10, "sender": False})
        for n, size in ((1, 100_000), (2, 95_000), (3, 95_000))
    ]
    document["server_output_json"] = {"start": _server(start), "intervals": received, "end": {}}
    (row,) = rows(document)
    assert (row["received_bytes"], row["jitter_ms"]) == (290_000, pytest.approx(0.2))


def test_a_file_of_an_older_version_without_sender_marks_and_sides_is_read() -> None:
    document = {
        "start": {key: value for key, value in _start(reverse=True).items() if key != "connected"},
        "intervals": _received([1_000_000, 2_000_000, 3_000_000], sender=None),
        "end": {"streams": [{"sender": {"bytes": 6_000_000}, "receiver": {"bytes": 6_000_000, "end": 3.1}}]},
    }
    (row,) = rows(document)
    assert (row["from_node"], row["received_bytes"], row["retransmitted_packets"]) == ("server", 6_000_000, None)


def test_a_stream_of_events_is_as_the_whole() -> None:
    document = download()
    events = [{"event": "start", "data": document["start"]}]
    events += [{"event": "interval", "data": interval} for interval in document["intervals"]]
    events += [{"event": key, "data": document[key]} for key in ("server_output_json", "end")]
    (streamed,) = read("".join(json.dumps(event) + "\n" for event in events), "a.json")
    assert streamed == one(document)


def test_seconds_that_were_to_be_omitted_are() -> None:
    document = download(both=False)
    early = _interval(1, {"bytes": 999, "omitted": True, "sender": False})
    document["intervals"].insert(0, early)
    assert one(document).flows == one(download(both=False)).flows


def test_a_test_that_broke_off_has_what_arrived_until_then_and_is_not_complete() -> None:
    document = download(both=False)
    document |= {"end": {}, "error": "control socket has closed unexpectedly"}
    test = one(document)
    assert test.error == "control socket has closed unexpectedly"
    assert "ended early: control socket has closed unexpectedly" in test.notes
    (row,) = rows(document)
    assert (row["outcome"], row["completed"], row["received_bytes"]) == ("stopped", False, 6_000_000)


def test_a_sum_that_was_not_heard_is_not_0() -> None:
    document = upload() | {"error": "interrupt - the client has terminated"}
    document["end"]["streams"][0]["receiver"]["bytes"] = 0
    assert one(document).notes == ("ended early: interrupt - the client has terminated", UNHEARD)
    (row,) = rows(document)
    assert (row["received_bytes"], row["outcome"]) == (7_000_000, "stopped")
    assert row["goodput_mbps"] == pytest.approx(18.7, rel=0.01)
    assert row["sent_packets"] > 0


def test_where_more_datagrams_are_lost_than_sent_the_summary_stays_and_it_is_said() -> None:
    sums = {
        "socket": 5,
        "start": 0,
        "end": 3.0,
        "bytes": 300_000,
        "packets": 300,
        "lost_packets": 410,
        "jitter_ms": 0.5,
    }
    document = {
        "start": _start(reverse=False, protocol="UDP"),
        "intervals": [_interval(n, {"bytes": 100_000, "packets": 100, "sender": True}) for n in (1, 2, 3)],
        "end": {"streams": [{"udp": sums}]},
    }  # fmt: skip
    assert one(document).notes == (MORE_LOST,)
    (row,) = rows(document)
    assert (row["sent_packets"], row["lost_packets"], row["received_bytes"]) == (300, 410, 300_000)


def test_intervals_that_hold_more_than_the_summary_are_named() -> None:
    document = download()
    document["end"]["streams"][0]["receiver"]["bytes"] = 5_000_000
    assert one(document).notes == ("its intervals hold 6000000 B, its summary 5000000 B: the summary's count",)
    assert rows(document)[0]["received_bytes"] == 5_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.json: not the JSON of iperf3: there is no `start`"),
        ("hello", "a.json: not the JSON of iperf3"),
        ("[1, 2]", "a.json: not the JSON of iperf3: there is no `start`"),
        ('{"a": 1}', "a.json: not the JSON of iperf3: there is no `start`"),
        ('{"start": {}, "intervals": [], "end": {}}', "a.json: iperf3 carried nothing"),
        ('{"start": {}, "error": "unable to connect to server: Connection refused"}', "iperf3 could not: unable to"),
        ("[" * 100_000, "not the JSON of iperf3"),
        (b"\xff\xfe", "a.json: not the JSON of iperf3"),
    ],
)
def test_a_file_of_something_else_is_bad_input(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError, match=r"^a\.json") as raised:
        read(text, "a.json")
    assert said in str(raised.value)


def test_bytes_that_no_transfer_has_are_refused_not_taken_for_0() -> None:
    document = download()
    document["intervals"][0]["streams"][0]["bytes"] = 10**30
    with pytest.raises(InputError, match=r"^a\.json: holds bytes that no transfer has"):
        read(json.dumps(document), "a.json")


def test_no_damage_to_a_value_makes_it_fall_over() -> None:
    draw = random.Random(7)  # noqa: S311 - for damage, not for secrets
    odd: list[Any] = [None, -1, 0, 1e300, float("inf"), "x", [], {}, True, 2**70, [None], {"streams": 3}]
    for _ in range(600):
        document = download() if draw.random() < 0.7 else upload()
        place: Any = copy.deepcopy(document)
        document = place
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw.choice(keys)
            inside = place[key]
            if not isinstance(inside, dict | list) or not inside or draw.random() < 0.2:
                place[key] = draw.choice(odd)
                break
            place = inside
        try:
            for found in read(json.dumps(document), "a.json"):
                tables(found, "a", "a.json")
        except InputError:
            continue
