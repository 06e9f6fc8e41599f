# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Links of other tools as profiles: each line beside the keys that it becomes, and what one of them does to packets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import Perigee
from perigee import run
from perigee.errors import InputError
from perigee.importing.read import read_link
from perigee.importing.tc import Ways

NETEM = {"aqm": {"kind": "netem", "packets": 1000}}
BURSTS = {"kind": "gilbert-elliott", "good_to_bad": "1 %", "bad_to_good": "10 %", "good_loss": "0 %"}
HTB = """tc qdisc del dev eth0 root
sudo tc qdisc add dev eth0 root handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit \\
    ceil 20mbit
tc class add dev eth0 parent 1: classid 1:20 htb rate 1mbit  # others
tc qdisc add dev eth0 parent 1:10 handle 10: netem delay 270ms limit 5000
"""
NS3 = """p2p.SetDeviceAttribute("DataRate", StringValue("5Mbps"));
p2p.SetChannelAttribute("Delay", TimeValue(MilliSeconds(300)));
"""
TOXICS = """[{"type": "latency", "attributes": {"latency": 300, "jitter": 50}},
 {"type": "bandwidth", "stream": "upstream", "attributes": {"rate": 125}}]"""

LINES: list[tuple[str, dict[str, Any]]] = [
    ("tc qdisc add dev eth0 root netem delay 300ms", {"delay": "300 ms", "queue": NETEM, "rate": "1 Gbit/s"}),
    ("tc qdisc add dev eth0 root netem delay 100", {"delay": "100 us"}),
    ("tc qdisc add dev eth0 root netem rate 128kbps 20", {"rate": "1.024 Mbit/s", "overhead": "20 B"}),
    ("tc qdisc add dev eth0 root netem loss 1% 25% corrupt 0.1", {"loss": ["1 %", "0.1 %"]}),
    ("tc qdisc add dev eth0 root netem loss gemodel 1% 10% 60%", {"loss": {**BURSTS, "bad_loss": "60 %"}}),
    ("tc qdisc add dev eth0 root netem loss state 1 10", {"loss": {**BURSTS, "bad_loss": "100 %"}}),
    (
        "qdisc netem 8001: dev eth0 root refcnt 2 limit 7 delay 5ms  10ms loss 1%",
        {
            "delay": {
                "kind": "jitter",
                "base": "0 s",
                "body": {"kind": "uniform", "width": "15 ms"},
                "every": "10 ms",
            },
            "loss": "1 %",
            "queue": {"aqm": {"kind": "netem", "packets": 7}},
        },
    ),
    (
        "tc qdisc add dev eth0 root netem delay 300ms 20ms distribution normal",
        {
            "delay": {
                "kind": "jitter",
                "base": "300 ms",
                "body": {"kind": "normal", "sd": "20 ms"},
                "every": "10 ms",
            }
        },
    ),
    (HTB, {"rate": "20 Mbit/s", "delay": "270 ms", "queue": {"aqm": {"kind": "netem", "packets": 5000}}}),
    (
        "tc qdisc add dev eth0 root tbf rate 1mbit burst 32kbit latency 400ms",
        {"rate": "1 Mbit/s", "burst": "4096 B", "queue": {"bytes": "54096 B"}},
    ),
    (
        "tc qdisc add dev eth0 root cake bandwidth 20mbit satellite",
        {
            "rate": "20 Mbit/s",
            "queue": {
                "aqm": {"kind": "fq-codel", "target": "50 ms", "interval": "1 s", "ecn": True},
                "bytes": "10 MB",
            },
        },
    ),
    (
        "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms "
        "memory_limit 32Mb ecn drop_batch 64",
        {
            "queue": {
                "packets": 10240,
                "aqm": {
                    "kind": "fq-codel",
                    "target": "5 ms",
                    "interval": "100 ms",
                    "ecn": True,
                    "queues": 1024,
                    "quantum": "1514 B",
                },
            }
        },
    ),
    (
        '--ns3::PointToPointNetDevice::DataRate=5Mbps\ndefault ns3::PointToPointChannel::Delay "300ms"',
        {"rate": "5 Mbit/s", "delay": "300 ms", "queue": {"packets": 100}, "overhead": "2 B"},
    ),
    (
        'x.SetDeviceAttribute("DataRate", ns.StringValue("1MB/s"))\n'
        'q.SetQueue("ns3::DropTailQueue", "MaxSize", "64KiB")'
        '\nem.SetAttribute("ErrorRate", ns.DoubleValue(0.01))\nem.SetAttribute("ErrorUnit", "ERROR_UNIT_PACKET")',
        {"rate": "8 Mbit/s", "delay": "0 s", "queue": {"bytes": "65536 B"}, "loss": "1 %"},
    ),
    (NS3, {"rate": "5 Mbit/s", "delay": "300 ms"}),
    (
        'x.SetDeviceAttribute("DataRate", DataRateValue(ns3::DataRate("5Mbps"))); '
        'x.SetChannelAttribute("Delay", TimeValue(MilliSeconds(300)));',
        {"rate": "5 Mbit/s", "delay": "300 ms"},
    ),
    (
        "--ns3::PointToPointNetDevice::DataRate=5Mbps --ns3::PointToPointChannel::Delay=300ms",
        {"rate": "5 Mbit/s", "delay": "300 ms"},
    ),
    (
        TOXICS,
        {
            "delay": {
                "kind": "jitter",
                "base": "250 ms",
                "body": {"kind": "uniform", "width": "100 ms"},
                "every": "10 ms",
            }
        },
    ),
    (
        "comcast --device=eth0 --latency=250 --target-bw=1000 --packet-loss=10%",
        {"rate": "1 Mbit/s", "delay": "250 ms", "loss": "10 %", "queue": NETEM},
    ),
    (
        "mm-delay 40 mm-loss downlink 0.01 mm-link up down --downlink-queue=drophead --downlink-queue-args=packets=100",
        {
            "rate": {"trace": "down"},
            "delay": "40 ms",
            "loss": "1 %",
            "queue": {"kind": "drop-front", "packets": 100},
        },
    ),
    ("0\n1\n2\n", {"rate": {"trace": "link.txt"}, "delay": "0 s"}),
]


AS_THEY_COME = Ways()


def profile(text: str, ways: Ways = AS_THEY_COME) -> dict[str, Any]:
    link = read_link({"link.txt": text}, ways, Path())
    return tomllib.loads(link.profile("it", "a test", None))


@pytest.mark.parametrize(("text", "down"), LINES, ids=[text.split("\n")[0][:60] for text, _ in LINES])
def test_a_line_becomes_the_profile_that_its_manual_describes(text: str, down: dict[str, Any]) -> None:
    assert profile(text)["down"].items() >= down.items()


def test_two_devices_are_the_two_directions() -> None:
    text = "tc qdisc add dev eth0 root netem rate 1mbit\ntc qdisc add dev ifb0 root netem rate 9mbit\n"
    assert [profile(text)[way]["rate"] for way in ("down", "up")] == ["9 Mbit/s", "1 Mbit/s"]
    assert profile(text, Ways(down="eth0"))["down"]["rate"] == "1 Mbit/s"
    one = text.split("\n")[0]
    assert [profile(one, Ways(both=True))[way]["rate"] for way in ("down", "up")] == ["1 Mbit/s", "1 Mbit/s"]
    assert profile(TOXICS)["up"]["rate"] == "1 Mbit/s"


def test_what_netem_does_and_a_link_does_not_is_said() -> None:
    link = read_link({"-": "tc qdisc add dev e root netem delay 300ms 9ms 25% reorder 1% duplicate 1%"}, Ways(), Path())
    said = "\n".join(link.notes)
    for words in ("overtake", "correlation", "reordering", "duplicates", "40 Mbit/s"):
        assert words in said


@pytest.mark.parametrize(
    ("later", "rate", "delay"),
    [
        ("change dev eth0 root netem delay 100ms", "10 Mbit/s", "100 ms"),
        ("replace dev eth0 root netem rate 5mbit", "5 Mbit/s", "0 s"),
        ("replace dev eth0 root handle 7: netem delay 100ms", "1 Gbit/s", "100 ms"),
        ("replace dev eth0 root tbf rate 3mbit burst 5kb latency 50ms", "3 Mbit/s", "0 s"),
    ],
)
def test_a_later_command_changes_or_replaces_what_is_there(later: str, rate: str, delay: str) -> None:
    text = f"tc qdisc add dev eth0 root handle 1: netem delay 300ms rate 10mbit loss 1%\ntc qdisc {later}\n"
    down = profile(text)["down"]
    assert (down["rate"], down["delay"], "loss" in down) == (rate, delay, False)


def test_statistics_and_other_commands_are_skipped() -> None:
    shown = "qdisc netem 1: root refcnt 2 limit 1000 delay 600ms\n Sent 0 bytes 0 pkt (dropped 0)\n backlog 0b 0p\n"
    link = read_link({"-": shown}, Ways(), Path())
    assert not any("None" in note or "skipped" in note for note in link.notes)
    redirect = "tc qdisc add dev eth0 handle ffff: ingress\n"
    assert read_link({"-": redirect + shown}, Ways(), Path()).down.delay_s == 0.6
    script = "set -e\nIF=eth0\nmodprobe ifb\ntc qdisc add dev $IF root netem delay 300ms\nset +e\n"
    link = read_link({"-": script}, Ways(), Path())
    assert "commands other than tc are skipped: 4 (`set`, `IF=eth0`, `modprobe`)" in link.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\ntc qdisc add dev eth0 root netem dely 1ms", "link.txt:2: .*did you mean `delay`"),
        ("tc qdisc add dev eth0 root netem delay", "link.txt:1: `delay` ends without its value"),
        ("tc qdisc add dev eth0 root netem delay 3parsec", "write it as `delay 300ms`"),
        ("tc qdisc add dev eth0 root tbf rate 1mbit", "tbf without `burst`"),
        ("tc qdisc add dev eth0 root hfsc default 1", "`hfsc` is not read; use one of netem"),
        ("tc qdisc add dev eth0 root netem loss state 1 2 3", "p32"),
        ('{"toxics": [{"type": "latency",\n', "link.txt:[12]: not JSON"),
        ('{"toxics": [{"type": "latncy"}]}', "did you mean `latency`"),
        ("comcast --latency=quick", "--latency=quick: not a number"),
        ("mm-link up", "mm-link needs two traces"),
        (NS3.replace("5Mbps", "5Mfps"), "link.txt:1: DataRate = 5Mfps"),
        (NS3.replace('StringValue("5Mbps")', "rate"), "DataRate without a value"),
        (NS3 + NS3.replace("5Mbps", "6Mbps"), "link.txt:3: a second DataRate"),
        ("hello", "the configuration of no tool that is known"),
    ],
)
def test_a_wrong_line_is_named_with_its_fix(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        profile(text)


@pytest.mark.parametrize("text", [text for text, _ in LINES])
def test_a_text_that_is_cut_anywhere_is_read_or_refused(text: str) -> None:
    for end in range(0, len(text), 3):
        try:
            profile(text[:end])
        except InputError as error:
            assert error.fix or ":" in str(error)


def test_a_thousand_packets_of_netem_bound_the_rate_of_a_long_path(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(
        read_link({"-": "tc qdisc add dev eth0 root netem delay 300ms"}, Ways(), tmp_path).profile("lab", "-", None)
    )
    (tmp_path / "study.toml").write_text(
        'name = "limit"\nnodes = ["a", "b"]\n[[links]]\nname = "l"\nbetween = ["a", "b"]\nprofile = "./lab.toml"\n'
        '[[flows]]\nname = "f"\nkind = "udp"\nfrom = "a"\nto = "b"\nrate = "100 Mbit/s"\npacket = "1500 B"\n'
        'duration = "6 s"\n'
    )
    flows = run(tmp_path / "study.toml", out=tmp_path / "out")["flows"]
    assert flows["goodput_mbps"].to_list() == pytest.approx([40.0], rel=0.06)


def test_the_command_writes_a_profile_or_says_which_line_is_wrong(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "shape.sh").write_text(HTB)
    done = perigee("profiles", "import", "shape.sh", "--up", "eth0", "-o", "lab.toml")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "lab.toml"), done.stderr
    assert "note: htb: a class sends at its ceil, 20 Mbit/s" in done.stderr
    assert "20 Mbit/s" in perigee("profiles", "show", "./lab.toml").stdout
    again = perigee("profiles", "import", "shape.sh", "-o", "lab.toml")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    (tmp_path / "wrong.sh").write_text(HTB + "tc qdisc add dev eth1 root netem dealy 3ms\n")
    wrong = perigee("profiles", "import", "wrong.sh", "-o", "wrong.toml")
    assert (wrong.returncode, (tmp_path / "wrong.toml").exists()) == (2, False)
    assert "wrong.sh:7: `dealy` is no option of netem that is read; did you mean `delay`?" in wrong.stderr
    slow = perigee("profiles", "import", "shape.sh", "--rate", "fast")
    assert slow.returncode == 2
