# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee fit` recovers known links within the statistical error of the number of samples."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conftest import ROOT
from perigee.errors import InputError
from perigee.fitting.captured import ceilings
from perigee.fitting.check import check, simulate_pings
from perigee.fitting.delay import Delay, fit_delay, with_spreads
from perigee.fitting.fit import Measured, fit
from perigee.fitting.loss import bursty, fit_bursts, fit_outages, runs_of
from perigee.fitting.period import find_period, steps_of, window_of
from perigee.fitting.rate import fit_queue, fit_rate
from perigee.fitting.series import read_pings
from perigee.measuring.probe import VERSION, read_log
from perigee.measuring.probe_steps import Step
from probed import PERIGEE, behind, line

Perigee = Callable[..., CompletedProcess[str]]
Floats = npt.NDArray[np.float64]
SEEDS = (1, 2, 3)
ATTEMPTS = 3

PROFILE = """\
name = "known"
title = "A link of known make"
source = "a test"
[down]
rate = "100 Mbit/s"
delay = "250 ms"
[up]
rate = "100 Mbit/s"
"""


def known(up_delay: str, loss: str = '"0 %"') -> str:
    return f"{PROFILE}delay = {up_delay}\nloss = {loss}\n"


def write_log(log: Path, rtt_ms: Floats, interval_s: float = 0.2) -> Path:
    head = f"# perigee ping: to there, every {round(interval_s * 1e6)} us, 20 bytes, lost after 10000000 us\n"
    lines = (
        f"{1.7e9 + at * interval_s:.3f},{'' if np.isnan(rtt) else f'{rtt:.3f}'}\n" for at, rtt in enumerate(rtt_ms)
    )
    log.write_text(head + "unix_s,rtt_ms\n" + "".join(lines))
    return log


def fit_to(rtt_ms: Floats, interval_s: float = 0.2) -> Delay:
    return fit_delay(rtt_ms, interval_s, np.ones(len(rtt_ms) - 1, bool))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("body", "kind", "base", "width", "sigma"),
    [
        ('{ kind = "normal", sd = "8 ms" }', "normal", 300, 8, 0),
        ('{ kind = "uniform", width = "40 ms" }', "uniform", 300, 40, 0),
        ('{ kind = "triangular", width = "60 ms" }', "triangular", 300, 60, 0),
        ('{ kind = "log-normal", median = "12 ms", sigma = 0.8 }', "log-normal", 300, 12, 0.8),
    ],
)
def test_a_body_is_given_back(seed: int, body: str, kind: str, base: float, width: float, sigma: float) -> None:
    link = known(f'{{ kind = "jitter", base = "300 ms", every = "100 ms", body = {body} }}')
    found = fit_to(simulate_pings(link, 0.2, 20, 20_000, seed))
    assert found.body == kind
    # A log-normal body has one more parameter, so each is less exact.
    allowed = 0.1 if sigma else 0.03
    assert found.base_ms == pytest.approx(base + 250, abs=allowed * width)
    assert found.width_ms == pytest.approx(width, rel=allowed)
    assert found.sigma == pytest.approx(sigma, rel=allowed)
    # Values are drawn independently, and only the few above the threshold lie beyond the body.
    assert found.memory_s == 0
    assert not found.resolved
    assert found.tail is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_normal_tail_is_given_back_and_its_order_is_no_part_of_it(seed: int) -> None:
    tail = (
        'tail = { kind = "log-normal", share = "1 %", every = "200 ms", median = "120 ms", sigma = 0.9, max = "4 s" }'
    )
    body = '{ kind = "triangular", width = "60 ms" }'
    link = known(f'{{ kind = "jitter", base = "300 ms", every = "100 ms", body = {body}, {tail} }}')
    found = fit_to(simulate_pings(link, 0.2, 20, 100_000, seed)).tail
    assert found is not None
    assert found.kind == "log-normal"
    assert found.share == pytest.approx(0.01, rel=0.12)
    assert found.scale_ms == pytest.approx(120, rel=0.15)
    assert found.shape == pytest.approx(0.9, rel=0.12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pareto_tail_is_given_back(seed: int) -> None:
    tail = 'tail = { kind = "pareto", share = "1 %", every = "200 ms", min = "60 ms", shape = 1.5, max = "20 s" }'
    body = '{ kind = "uniform", width = "20 ms" }'
    link = known(f'{{ kind = "jitter", base = "300 ms", every = "100 ms", body = {body}, {tail} }}')
    found = fit_to(simulate_pings(link, 0.2, 20, 100_000, seed)).tail
    assert found is not None
    assert found.kind == "pareto"
    # Some 1000 of them: 3 % of standard deviation.
    assert found.share == pytest.approx(0.01, rel=0.12)
    assert found.scale_ms == pytest.approx(60, rel=0.03)
    assert found.shape == pytest.approx(1.5, rel=0.12)


@pytest.mark.parametrize("seed", SEEDS)
def test_how_long_a_delay_holds_is_given_back(seed: int) -> None:
    body = 'body = { kind = "normal", sd = "8 ms" }'
    held = known(f'{{ kind = "jitter", base = "300 ms", every = "5 s", {body} }}')
    found = fit_to(simulate_pings(held, 0.2, 20, 50_000, seed))
    assert found.memory_s == 0
    assert found.every_s == pytest.approx(5.0, rel=0.1)
    drifting = known(f'{{ kind = "jitter", base = "300 ms", every = "200 ms", memory = "3 s", {body} }}')
    found = fit_to(simulate_pings(drifting, 0.2, 20, 50_000, seed))
    assert found.every_s == 0.2
    assert found.memory_s == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("every_ms", [20, 50])
def test_a_probe_says_for_how_long_a_delay_holds_that_pings_see_as_independent(seed: int, every_ms: int) -> None:
    rng = np.random.default_rng(seed)
    pinged = fit_to(550 + rng.uniform(0, 10, 5000))
    # A packet each millisecond for half a minute, without reordering. The length of a block is no multiple of `every`.
    sent = np.arange(97 * 300.0)
    drawn = rng.uniform(0, 10, 97 * 300 // every_ms + 1)[(sent // every_ms).astype(int)]
    delays = (np.maximum.accumulate(sent + drawn) - sent).reshape(-1, 97)
    found = with_spreads(pinged, delays.max(axis=1) - delays.min(axis=1), 0.097)
    assert found.every_s == pytest.approx(every_ms / 1000, rel=0.25)
    # If the delay hardly varies within blocks, the interval of the pings is kept.
    assert with_spreads(pinged, np.full(300, 0.5), 0.1) == pinged


def test_a_constant_delay_has_no_body() -> None:
    rtt = simulate_pings(known('"250 ms"'), 0.2, 20, 1000) + np.random.default_rng(1).uniform(0, 0.3, 1000)
    found = fit_to(rtt)
    assert (found.body, found.tail) == ("constant", None)
    assert found.base_ms == pytest.approx(500.15, abs=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_outages_of_two_kinds_are_told_apart_from_each_other(seed: int) -> None:
    loss = '[ "0.05 %", { kind = "outages", gap = "400 s", length = "2 s" } ]'
    lost = np.isnan(simulate_pings(known('"250 ms"', loss), 0.2, 20, 500_000, seed))
    single, outage = sorted(fit_outages(runs_of(lost), 0.2), key=lambda found: found.length_s)
    assert (single.kind, outage.kind) == ("single", "outage")
    # Some 250 events of each: 6 % of standard deviation. Outages shorter than a ping's interval count as single.
    assert single.share == pytest.approx(0.0005, rel=0.35)
    assert outage.length_s == pytest.approx(2.0, rel=0.2)
    assert outage.gap_s == pytest.approx(400, rel=0.25)


@pytest.mark.parametrize("seed", SEEDS)
def test_bursts_from_packet_to_packet_are_given_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lost = gilbert(rng, 200_000, share=0.01, burst=4.0)
    found = fit_bursts(runs_of(lost))
    assert found is not None
    assert found.kind == "burst"
    # 500 bursts.
    assert found.burst == pytest.approx(4.0, rel=0.15)
    assert found.share == pytest.approx(0.01, rel=0.2)


def gilbert(rng: np.random.Generator, count: int, share: float, burst: float) -> npt.NDArray[np.bool_]:
    """Losses of a Markov chain with two states."""
    lost, bad = np.zeros(count, bool), False
    begins, ends = share / (1 - share) / burst, 1 / burst
    for at, draw in enumerate(rng.random(count)):
        bad = draw >= ends if bad else draw < begins
        lost[at] = bad
    return lost


def test_independent_losses_are_taken_for_bursts_as_rarely_as_said() -> None:
    said = sum(bursty(runs_of(np.random.default_rng(seed).random(20_000) < 0.02)) < 0.01 for seed in range(300))
    # A false alarm in 1 of 100: 3 are expected, and more than 9 occur in 1 of 800 such tests.
    assert said <= 9


def test_a_series_without_a_loss_or_with_few_says_so() -> None:
    assert fit_outages(runs_of(np.zeros(1000, bool)), 0.2) == []
    assert fit_bursts(runs_of(np.zeros(1000, bool))) is None
    few = np.zeros(1000, bool)
    few[[10, 11, 12]] = True
    assert fit_outages(runs_of(few), 0.2)[0].kind == "single"


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_that_repeat_and_steps_of_the_delay_have_their_period_found(seed: int) -> None:
    jitter = '{ kind = "jitter", base = "20 ms", every = "15 s", body = { kind = "uniform", width = "15 ms" } }'
    loss = '[ "0.2 %", { kind = "periodic", period = "15 s", phase = "4 s", length = "400 ms", loss = "40 %" } ]'
    rtt = simulate_pings(known(jitter, loss), 0.2, 20, 20_000, seed)
    lost, time_s = np.isnan(rtt), np.linspace(0, 0.2 * (len(rtt) - 1), len(rtt))
    found = find_period(time_s[lost], time_s[-1], 0.2)
    assert found is not None
    assert found.period_s == pytest.approx(15.0, rel=1e-3)
    window = window_of(found.period_s, time_s, lost, 0.2)
    assert window.length_s == pytest.approx(0.4, abs=0.2)
    assert window.loss * window.length_s == pytest.approx(0.4 * 0.4, rel=0.3)
    assert window.start_s == pytest.approx(4.0, abs=0.4)
    steps = find_period(steps_of(rtt, 0.2), time_s[-1], 0.2)
    assert steps is not None
    assert steps.period_s == pytest.approx(15.0, rel=1e-3)


@pytest.mark.parametrize("seeds", [20, pytest.param(100, marks=pytest.mark.long)])
def test_what_does_not_repeat_has_no_period(seeds: int) -> None:
    wrong = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        wrong += find_period(np.sort(rng.uniform(0, 3600, rng.integers(20, 500))), 3600, 0.2) is not None
    # A false alarm in 1 of 1000.
    assert wrong <= seeds // 100


def probed(
    rate_mbps: float,
    offered_mbps: float,
    queue: int = 100_000,
    time_s: float = 40.0,
    swing: float = 0.0,
    loss: npt.NDArray[np.bool_] | None = None,
    direction: str = "down",
) -> dict[str, Any]:
    """A line of a log for a link of known rate and queue; `swing` is the relative amplitude of the rate over 20 s."""
    packet, offered = 1500, offered_mbps * 1e6
    count = round(time_s * offered / packet / 8)
    sent_at = np.arange(count) * packet * 8 / offered
    free, arrived = 0.0, np.full(count, np.nan)
    for at, now in enumerate(sent_at):
        rate = rate_mbps * 1e6 * (1 + swing * np.sin(2 * np.pi * now / 20))
        if (free - now) * rate / 8 + packet <= queue:
            free = max(free, now) + packet * 8 / rate
            arrived[at] = free + 0.3
    if loss is not None:
        arrived[loss[:count]] = np.nan
    return line(sent_at, arrived, offered, direction)


def steps_of_links(*records: dict[str, Any]) -> list[Step]:
    return [Step(record, 1500) for record in records]


def test_rate_and_queue_of_a_full_link_are_given_back() -> None:
    steps = steps_of_links(probed(8, 4), probed(8, 16))
    rate = fit_rate(steps, "down")
    assert rate is not None
    assert (rate.full, rate.sd_bps) == (True, 0)
    assert rate.bps == pytest.approx(8e6, rel=0.005)
    queue = fit_queue(steps, rate)
    assert queue is not None
    assert queue.full
    assert queue.bytes_ == pytest.approx(100_000, rel=0.04)
    assert fit_rate(steps, "up") is None


def test_a_link_that_was_never_full_carries_what_came_or_more() -> None:
    rate = fit_rate(steps_of_links(probed(8, 4)), "down")
    assert rate is not None
    assert not rate.full
    assert rate.bps == pytest.approx(4e6, rel=0.001)
    assert fit_queue(steps_of_links(probed(8, 4)), rate) is None


def test_a_queue_that_is_not_filled_is_said_to_be_larger() -> None:
    steps = steps_of_links(probed(8, 4), probed(8, 9, queue=10_000_000))
    rate = fit_rate(steps, "down")
    assert rate is not None
    queue = fit_queue(steps, rate)
    assert queue is not None
    assert not queue.full


def test_a_rate_that_swings_has_its_standard_deviation() -> None:
    rate = fit_rate(steps_of_links(probed(8, 4), probed(8, 16, swing=0.2, time_s=100)), "down")
    assert rate is not None
    assert rate.bps == pytest.approx(8e6, rel=0.02)
    assert rate.sd_bps == pytest.approx(8e6 * 0.2 / np.sqrt(2), rel=0.1)
    assert rate.memory_s > 2
    assert rate.least_bps == pytest.approx(6.4e6, rel=0.03)
    assert rate.most_bps == pytest.approx(9.6e6, rel=0.03)


def test_a_probe_s_losses_decide_where_there_are_enough_and_its_rate_includes_them(tmp_path: Path) -> None:
    lost = gilbert(np.random.default_rng(1), 100_000, share=0.03, burst=3.0)
    records = [probed(8, 4, loss=lost, time_s=60), probed(8, 16, loss=lost, time_s=30)]
    records += [probed(2, 1, direction="up"), probed(2, 4, direction="up")]
    pings = read_pings(write_log(tmp_path / "b.csv", np.full(5000, 600.0)))
    fitted = fit("both", Measured(pings, steps_of_links(*records)))
    assert 'kind = "gilbert-elliott"' in fitted.down.loss.toml if fitted.down.loss else False
    assert fitted.up.loss is not None
    assert fitted.up.loss.toml == '"0 %"'
    rate = fit_rate(steps_of_links(*records), "down")
    assert rate is not None
    assert rate.bps == pytest.approx(8e6, rel=0.02)
    rows = {row.what: row for row in check(fitted, Measured(pings, steps_of_links(*records)))}
    for what in ("probe down 16 Mbit/s", "probe up 4 Mbit/s", "probe up 1 Mbit/s"):
        assert rows[f"{what}: received"].fitted == pytest.approx(rows[f"{what}: received"].measured, rel=0.03)
        assert rows[f"{what}: lost"].fitted == pytest.approx(rows[f"{what}: lost"].measured, abs=1.5)


def test_the_delay_moves_in_the_direction_in_which_the_probe_saw_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    moving, still = probed(8, 4), probed(8, 4, direction="up")
    for name in ("least_us", "mean_us", "most_us"):
        moving["report"]["blocks"][name] = (rng.uniform(0, 40e3, len(moving["report"]["blocks"][name]))).tolist()
    pings = read_pings(write_log(tmp_path / "b.csv", 600 + rng.uniform(0, 40, 5000)))
    fitted = fit("a", Measured(pings, steps_of_links(moving, still)))
    assert 'kind = "uniform"' in fitted.down.delay.toml
    assert fitted.up.delay.toml == '"300 ms"'
    shifted = fit("a", Measured(pings, down_delay_ms=250.0))
    assert shifted.down.delay.toml == '"250 ms"'
    assert 'base = "350' in shifted.up.delay.toml or 'base = "349' in shifted.up.delay.toml


@pytest.mark.parametrize("hours", [6, pytest.param(24, marks=pytest.mark.long)])
def test_a_ka_band_link_measured_for_long_and_fitted_pings_as_before(tmp_path: Path, hours: int) -> None:
    link = (ROOT / "benches" / "ka-pings.toml").read_text()
    pings = read_pings(write_log(tmp_path / "v.csv", simulate_pings(link, 0.2, 20, hours * 18_000)))
    measured = Measured(pings)
    rows = {row.what: row for row in check(fit("again", measured), measured)}
    for what, allowed in (("least", 0.01), ("mean", 0.001), ("median", 0.001), ("99th percentile", 0.002)):
        assert rows[f"ping: {what}"].fitted == pytest.approx(rows[f"ping: {what}"].measured, rel=allowed), what
    assert rows["ping: standard deviation"].fitted == pytest.approx(rows["ping: standard deviation"].measured, rel=0.1)
    # Some 220 losses a day in 160 events, of which few are long.
    assert rows["ping: lost"].fitted == pytest.approx(rows["ping: lost"].measured, rel=0.4)


def test_clocks_that_were_set_and_pauses_do_not_stop_it_and_are_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "b.csv", 600 + np.random.default_rng(1).uniform(0, 5, 1000))
    lines = log.read_text().splitlines(keepends=True)
    later = [f"{float(line.split(',')[0]) - 3600:.3f},{line.split(',')[1]}" for line in lines[402:602]]
    paused = [f"{float(line.split(',')[0]) + 500:.3f},{line.split(',')[1]}" for line in lines[602:]]
    log.write_text("".join(lines[:402] + later + paused) + "1700000")
    pings = read_pings(log)
    assert len(pings.rtt_ms) == 1000
    assert np.all(np.diff(pings.place) >= 1)
    assert "last line is cut off" in pings.notes[0]
    assert "the clock was set back by 3599.8 s" in pings.notes[1]
    assert "1 pauses" in pings.notes[2]


def test_pings_that_a_server_s_limit_left_without_an_answer_are_no_losses(tmp_path: Path) -> None:
    log = write_log(tmp_path / "l.csv", np.full(500, 600.0))
    lines = log.read_text().splitlines(keepends=True)
    for at in range(100, 110):
        lines[at] = lines[at].partition(",")[0] + ",limited\n"
    log.write_text("".join(lines))
    pings = read_pings(log)
    assert (len(pings.rtt_ms), bool(np.isfinite(pings.rtt_ms).all()), int(pings.place[-1])) == (490, True, 499)
    assert [note for note in pings.notes if "10 pings reached the server over its limit" in note]


def test_logs_that_say_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all of the 500 pings were lost"):
        read_pings(write_log(tmp_path / "a.csv", np.full(500, np.nan)))
    with pytest.raises(InputError, match="nothing to fit"):
        fit("a", Measured())
    log = write_log(tmp_path / "c.csv", np.full(500, 600.0))
    log.write_text(log.read_text().replace("600.000", "fast", 1))
    with pytest.raises(InputError, match=r"c.csv:3: not a time and a round trip"):
        read_pings(log)


def test_a_probe_of_which_nothing_arrived_is_refused() -> None:
    none = probed(8, 4)
    none["report"] |= {"received": 0, "lost": none["sent"]["packets"], "arrivals": [], "runs": [[13333, 1]]}
    for name in ("least_us", "mean_us", "most_us"):
        none["report"]["blocks"][name] = [None] * len(none["report"]["blocks"][name])
    none["report"]["blocks"]["received"] = [0] * len(none["report"]["blocks"]["received"])
    steps = steps_of_links(none)
    assert not steps[0].is_full(steps)
    assert np.isnan(steps[0].delay_variation_ms[0])
    with pytest.raises(InputError, match="no packet of it arrived"):
        fit("a", Measured(steps=steps))


def test_a_log_without_a_loss_gives_a_bound(tmp_path: Path) -> None:
    fitted = fit("a", Measured(read_pings(write_log(tmp_path / "a.csv", np.full(1000, 600.0)))))
    assert fitted.down.loss is not None
    assert fitted.down.loss.toml == '"0 %"'
    assert "0 of 1000 packets lost, 0 % (95 % interval 0 to 0.368 %" in fitted.down.loss.source[0]


def test_the_command_writes_a_profile_that_a_study_takes(perigee: Perigee, tmp_path: Path) -> None:
    write_log(tmp_path / "base.csv", 600 + np.random.default_rng(1).uniform(0, 40, 2000))
    head = {"perigee_probe": VERSION, "packet": 1500}
    lines = [head, probed(8, 4), probed(8, 16), probed(2, 1, direction="up")]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = perigee("fit", "--ping", "base.csv", "--probe", "p.jsonl", "-o", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "ping: median" in done.stdout
    assert "probe down 16 Mbit/s: received" in done.stdout
    assert "not measured: up.queue" in done.stderr
    text = (tmp_path / "mine.toml").read_text()
    assert 'rate = "8 Mbit/s"' in text
    assert "# base.csv: least of 2000 round trips" in text
    (tmp_path / "study.toml").write_text(
        'name = "s"\ntitle = "s"\nnodes = ["a", "b"]\n[[links]]\nname = "l"\nbetween = ["a", "b"]\n'
        'profile = "./mine.toml"\n[[flows]]\nname = "f"\nfrom = "a"\nto = "b"\nsize = "1 MB"\n'
    )
    run = perigee("run", "./study.toml", "--out", "out")
    assert run.returncode == 0, run.stderr
    again = perigee("fit", "--ping", "base.csv", "-o", "mine.toml")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "a.toml"], "nothing to fit; give logs and captures"),
        (["--ping", "no-such-log", "-o", "a.toml"], "no-such-log: cannot be read"),
        (["--ping", __file__, "-o", "a.toml"], "this is no log that is known"),
        (["--probe", __file__, "-o", "a.toml"], "no log of `perigee probe`"),
        (["-o", "A B.toml"], "not a name"),
        (["-o", "a.toml", "--down", "20"], 'not a rate with a unit; write "2 Mbit/s"'),
    ],
)
def test_wrong_input_is_answered_with_the_fix_and_exit_code_2(
    perigee: Perigee, arguments: list[str], said: str
) -> None:
    done = perigee("fit", *arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_captured_transfer_gives_rate_and_queue_at_least(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'name = "s"\ntitle = "s"\nnodes = ["server", "client"]\n[measure]\npcap = true\n'
        '[[links]]\nname = "l"\nbetween = ["server", "client"]\n'
        'down = { rate = "20 Mbit/s", delay = "100 ms", queue = "500 kB" }\n'
        'up = { rate = "5 Mbit/s", delay = "100 ms" }\n'
        '[[flows]]\nname = "d"\nfrom = "server"\nto = "client"\nduration = "30 s"\n'
    )
    assert perigee("run", "./study.toml", "--out", "out").returncode == 0
    for end in ("server", "client"):
        found = ceilings([tmp_path / f"out/captures/run-000000-{end}.pcapng"])
        assert [ceiling.way for ceiling in found] == ["down"]
        assert found[0].bps == pytest.approx(20e6, rel=0.01)
        assert found[0].least_ms == pytest.approx(200, rel=0.02)
        assert found[0].queue_bytes() == pytest.approx(500e3, rel=0.05)
    captured = fit("a", Measured(captured=found))
    assert (captured.up.rate.measured, captured.down.rate.measured) == (False, True)
    pinged = read_pings(write_log(tmp_path / "base.csv", np.full(500, 200.0)))
    both = fit("a", Measured(pinged, steps_of_links(probed(8, 4), probed(8, 16)), found))
    # A probe that filled the link overrides a transfer.
    assert both.down.rate.toml == '"8 Mbit/s"'
    with pytest.raises(InputError, match="no transfer of 5 s or more"):
        ceilings([write_log(tmp_path / "b.csv", np.full(500, 200.0))])


def hold_fitted(folder: Path) -> None:
    """Assert that the fit to the measurements recovers the emulated link of the test below."""
    steps = read_log(folder / "probe.jsonl")
    measured = Measured(read_pings(folder / "base.csv"), steps)
    fitted = fit("again", measured)
    for way, rate_bps in (("down", 8e6), ("up", 4e6)):
        rate = fit_rate(steps, way)
        assert rate is not None
        assert rate.full
        assert rate.bps == pytest.approx(rate_bps, rel=0.02)
        queue = fit_queue(steps, rate)
        assert queue is not None
        assert queue.bytes_ == pytest.approx(100_000, rel=0.1)
    # The jitter is on the uplink, the bursts of losses are on the downlink.
    assert fitted.down.delay.toml.startswith('"')
    assert 'kind = "jitter"' in fitted.up.delay.toml
    delay = fit_delay(measured.pings.rtt_ms, 0.02, measured.pings.follows) if measured.pings else None
    assert delay is not None
    assert delay.least_ms == pytest.approx(100, abs=3)
    assert delay.body == "uniform"
    assert delay.width_ms == pytest.approx(20, rel=0.15)
    assert fitted.down.loss is not None
    assert 'kind = "gilbert-elliott"' in fitted.down.loss.toml
    rows = {row.what: row for row in check(fitted, measured)}
    # Some 40 bursts in 6000 packets.
    assert 0.5 < rows["probe down 6 Mbit/s: lost"].measured < 4
    # Higher delays come from this machine.
    for what in ("least", "median"):
        assert rows[f"ping: {what}"].fitted == pytest.approx(rows[f"ping: {what}"].measured, rel=0.03)
    (folder / "again.toml").write_text(fitted.text)
    again = behind(f"--link {folder}/again.toml", "true")
    assert again.returncode == 0, again.stderr


@pytest.mark.long  # a minute and a half in real time; fits of simulated pings and probes are above
def test_an_emulated_link_measured_and_fitted_is_that_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jitter = '{ kind = "jitter", base = "40 ms", every = "20 ms", body = { kind = "uniform", width = "20 ms" } }'
    loss = '{ kind = "gilbert-elliott", loss = "2 %", burst = 3 }'
    settings = {
        "down.rate": '"8 Mbit/s"', "up.rate": '"4 Mbit/s"', "down.queue": '"100 kB"', "up.queue": '"100 kB"',
        "down.delay": '"60 ms"', "up.delay": jitter, "down.loss": loss,
    }  # fmt: skip
    link = "--link leo " + " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
    # The measurement includes delays by other processes of this machine, so it is repeated.
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        monkeypatch.setenv("PERIGEE_TEST_FOLDER", str(folder))
        done = behind(
            link,
            f"{PERIGEE} ping 100.64.0.1 --interval '20 ms' --count 1500 --timeout '2 s' --log base.csv && "
            f"{PERIGEE} probe 100.64.0.1 --rate '3 Mbit/s' --rate '6 Mbit/s' --rate '12 Mbit/s' --time '8 s' "
            "--log probe.jsonl",
        )
        assert done.returncode == 0, done.stderr
        try:
            hold_fitted(folder)
            break
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
