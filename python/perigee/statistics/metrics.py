# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Metrics of a flow: titles, units, and how those without a column are computed from the columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from perigee.errors import InputError
from perigee.statistics.acknowledged import acknowledged
from perigee.statistics.estimates import Array, sliding_mean, spread, time_of_size
from perigee.statistics.expressions import Expression, parse, unit_of
from perigee.store.results import Results


@dataclass(frozen=True)
class Metric:
    """A quantity of a flow.

    Attributes:
        name: its name in files; a column of `flows`, or computed.
        title: what it is, for people.
        unit: its unit, empty for a pure number.
        digits: decimals that mean something.
        higher_is_better: to mark the best; none: neither is.
        parts: for a ratio: the columns of numerator and denominator, of each flow.
        scale: factor of a ratio.
        of_means: the value of a group is the ratio of the means, not the mean of the flows' ratios; it then has neither
            a spread nor a test, which would be those of another quantity.
        expression: for arithmetic over columns: what it computes, of each flow.
        source: for what another table has of a flow, the mean of its rows: the table, and its column or arithmetic over
            its columns.
    """

    name: str
    title: str
    unit: str
    digits: int = 1
    higher_is_better: bool | None = None
    parts: tuple[str, str] | None = None
    scale: float = 1.0
    of_means: bool = False
    expression: Expression | None = None
    source: tuple[str, str] | None = None

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


METRICS = {
    metric.name: metric
    for metric in (
        Metric("goodput_mbps", "Overall throughput", "Mbit/s", 1, True),
        Metric("steady_goodput_mbps", "Steady-state throughput", "Mbit/s", 1, True),
        Metric("startup_goodput_mbps", "Start-up throughput", "Mbit/s", 1, True),
        Metric("goodput_p10_mbps", "10th percentile of throughput", "Mbit/s", 1, True),
        Metric("goodput_p50_mbps", "Median throughput", "Mbit/s", 1, True),
        Metric("goodput_p90_mbps", "90th percentile of throughput", "Mbit/s", 1, True),
        Metric("rtt_mean_ms", "Overall round-trip time", "ms", 0, False),
        Metric("steady_rtt_mean_ms", "Steady-state round-trip time", "ms", 0, False),
        Metric("startup_rtt_mean_ms", "Start-up round-trip time", "ms", 0, False),
        Metric("rtt_min_ms", "Smallest round-trip time", "ms", 0, False),
        Metric("rtt_p50_ms", "Median round-trip time", "ms", 0, False),
        Metric("rtt_p95_ms", "95th percentile of round-trip time", "ms", 0, False),
        Metric("rtt_p99_ms", "99th percentile of round-trip time", "ms", 0, False),
        Metric("duration_s", "Duration", "s", 1, False),
        Metric("handshake_ms", "Handshake", "ms", 0, False),
        Metric("rto_count", "Retransmission timeouts", "", 2, False),
        Metric("spurious_losses", "Spurious losses", "", 2, False),
        Metric("rwnd_limited_percent", "Time held back by the receiver's window", "%", 1, False,
               ("rwnd_limited_s", "duration_s"), 100),
        Metric("power", "Overall power", "Mbit/s per s", 0, True, ("goodput_mbps", "rtt_mean_ms"), 1e3, of_means=True),
        Metric("steady_power", "Steady-state power", "Mbit/s per s", 0, True,
               ("steady_goodput_mbps", "steady_rtt_mean_ms"), 1e3, of_means=True),
        Metric("startup_power", "Start-up power", "Mbit/s per s", 0, True,
               ("startup_goodput_mbps", "startup_rtt_mean_ms"), 1e3, of_means=True),
        Metric("retransmitted_percent", "Retransmitted, overall", "%", 2, False,
               ("retransmitted_packets", "sent_packets"), 100),
        Metric("steady_retransmitted_percent", "Retransmitted, steady state", "%", 2, False,
               ("steady_retransmitted_packets", "steady_sent_packets"), 100),
        Metric("startup_retransmitted_percent", "Retransmitted, start-up", "%", 2, False,
               ("startup_retransmitted_packets", "startup_sent_packets"), 100),
        Metric("capture_goodput_mbps", "Overall throughput in the receiver's capture", "Mbit/s", 1, True),
        Metric("capture_steady_goodput_mbps", "Steady-state throughput in the receiver's capture", "Mbit/s", 1, True),
        Metric("capture_startup_goodput_mbps", "Start-up throughput in the receiver's capture", "Mbit/s", 1, True),
        Metric("capture_goodput_p10_mbps", "10th percentile of throughput in the receiver's capture", "Mbit/s", 1,
               True),
        Metric("capture_goodput_p50_mbps", "Median throughput in the receiver's capture", "Mbit/s", 1, True),
        Metric("capture_goodput_p90_mbps", "90th percentile of throughput in the receiver's capture", "Mbit/s", 1,
               True),
        Metric("capture_rtt_mean_ms", "Overall round-trip time in the sender's capture", "ms", 0, False),
        Metric("capture_steady_rtt_mean_ms", "Steady-state round-trip time in the sender's capture", "ms", 0, False),
        Metric("capture_startup_rtt_mean_ms", "Start-up round-trip time in the sender's capture", "ms", 0, False),
        Metric("capture_power", "Overall power in captures", "Mbit/s per s", 0, True,
               ("capture_goodput_mbps", "capture_rtt_mean_ms"), 1e3, of_means=True),
        Metric("capture_steady_power", "Steady-state power in captures", "Mbit/s per s", 0, True,
               ("capture_steady_goodput_mbps", "capture_steady_rtt_mean_ms"), 1e3, of_means=True),
        Metric("capture_startup_power", "Start-up power in captures", "Mbit/s per s", 0, True,
               ("capture_startup_goodput_mbps", "capture_startup_rtt_mean_ms"), 1e3, of_means=True),
        Metric("capture_retransmitted_percent", "Repeated frames, overall", "%", 2, False,
               ("capture_repeated_frames", "capture_frames"), 100),
        Metric("capture_steady_retransmitted_percent", "Repeated frames, steady state", "%", 2, False,
               ("capture_steady_repeated_frames", "capture_steady_frames"), 100),
        Metric("lost_percent", "Datagrams lost", "%", 2, False, ("lost_packets", "sent_packets"), 100),
        Metric("mos", "Opinion score of a call", "", 2, True, source=("voice", "mos")),
        Metric("r_factor", "Rating R of a call", "", 1, True, source=("voice", "r_factor")),
        Metric("mouth_to_ear_ms", "Delay from mouth to ear", "ms", 0, False, source=("voice", "mouth_to_ear_ms")),
        Metric("voice_delay_ms", "One-way delay of speech", "ms", 0, False, source=("voice", "delay_mean_ms")),
        Metric("voice_jitter_ms", "Jitter of speech", "ms", 2, False, source=("voice", "jitter_mean_ms")),
        Metric("voice_lost_percent", "Speech that was lost on its way", "%", 3, False,
               source=("voice", "100 * lost_packets / sent_packets")),
        Metric("unplayed_percent", "Speech that was not played", "%", 2, False, source=("voice", "unplayed_percent")),
        Metric("startup_delay_s", "Time to the first picture", "s", 2, False, source=("videos", "startup_delay_s")),
        Metric("stalls", "Stalls of a video", "", 1, False, source=("videos", "stalls")),
        Metric("stalled_percent", "Time in stalls", "%", 2, False, source=("videos", "stalled_percent")),
        Metric("bitrate_mbps", "Mean bit rate of a video", "Mbit/s", 2, True, source=("videos", "bitrate_mbps")),
        Metric("switches", "Switches of the bit rate", "", 1, False, source=("videos", "switches")),
        Metric("on_time_percent", "Frames on time", "%", 2, True, source=("calls", "on_time_percent")),
        Metric("frame_delay_ms", "Delay of frames", "ms", 0, False, source=("calls", "delay_mean_ms")),
        Metric("frame_jitter_ms", "Jitter of frames", "ms", 2, False, source=("calls", "jitter_mean_ms")),
        Metric("freezes", "Freezes of a call", "", 1, False, source=("calls", "freezes")),
        Metric("frozen_percent", "Time frozen", "%", 2, False, source=("calls", "frozen_percent")),
        Metric("page_load_ms", "Page load time", "ms", 0, False, source=("pages", "load_ms")),
        Metric("document_ms", "Time to the document", "ms", 0, False, source=("pages", "document_ms")),
        Metric("page_bytes", "Size of a page", "B", 0, None, source=("pages", "bytes")),
        Metric("page_connections", "Connections for a page", "", 1, None, source=("pages", "connections")),
    )
}  # fmt: skip
"""The metrics, by name."""

_ALONE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[0-9]+[A-Za-z0-9_]+)?")
_TITLED = re.compile(r"(?P<title>[^=()]+?)(?:\s*\((?P<unit>[^()]*)\))?\s*=(?P<expression>.+)", re.DOTALL)
EXCHANGE = "exchange_ms"
"""The metric that comes from the table `exchanges`: of each flow the mean duration of its requests or pings."""

RESPONSES = "response_ms"
"""The metric that comes from the table `responses`: of each population the mean duration of its transactions."""

LINK_RATE = "link_rate_mbps"
"""The metric of the mean rate of the link that carried most in a flow's run; from the table `links`."""

ACKED = "acked_goodput_mbps"
"""The metric of what had been acknowledged by a flow's end; from the table `series`."""

SHORT_TIME_S = 10.0
"""The window of the short-time goodput."""

_RESPONSE_OF = re.compile(r"response_(\d+)_b_ms")
_FIRST = re.compile(r"first_(\d+(?:\.\d+)?)_s_mbps")
_STEADY_SHARE = re.compile(r"steady_goodput_p(\d\d)_mbps")
_DOWNLOAD = re.compile(r"download_(\d+(?:\.\d+)?)_mb_s")
_SHORT_TIME_TO = re.compile(r"short_time_to_(\d+(?:\.\d+)?)_mbps_s")
_TIME_TO = re.compile(r"time_to_(\d+(?:\.\d+)?)_mbps_s")


def metric(name: str, columns: Sequence[str] = ()) -> Metric:
    """Return a metric by its name, or by an expression over metrics and columns.

    `download_5_mb_s` and `time_to_100_mbps_s` work for any number. An expression may have a title and a unit of its
    own: `"Efficiency (Mbit/s per ms) = goodput_mbps / rtt_mean_ms"`; otherwise its text is the title, and its unit
    comes from the names in it.

    Args:
        name: the name or the expression.
        columns: other names that there are: of numeric columns of `flows`.

    Raises:
        InputError: there is no metric of that name, or the expression is wrong.

    Examples:
        >>> metric("download_5_mb_s").heading
        'Time to download 5 MB (s)'
        >>> metric("short_time_to_0.9_mbps_s").heading
        'Time to a short-time goodput of 0.9 Mbit/s (s)'
        >>> metric("goodput_mbps / rtt_mean_ms").heading
        'goodput_mbps / rtt_mean_ms (Mbit/s per ms)'
        >>> metric("Power (Mbit/s per s) = 1000 * goodput_mbps / rtt_mean_ms").heading
        'Power (Mbit/s per s)'
        >>> metric("sent_packets", ["sent_packets"]).heading
        'Sent packets (packets)'
    """
    if name in METRICS:
        return METRICS[name]
    if name == EXCHANGE:
        return Metric(name, "Mean duration of a request or ping", "ms", 0, False)
    if name == LINK_RATE:
        return Metric(name, "Rate of the busiest link", "Mbit/s", 1, None)
    if name == ACKED:
        return Metric(name, "Goodput by acknowledgements", "Mbit/s", 3, True)
    if name == RESPONSES:
        return Metric(name, "Mean response time of users", "ms", 0, False)
    if name in columns:
        return Metric(name, _titled(name), unit_of(name), 1)
    if not _ALONE.fullmatch(name):
        return _own(name, columns)
    if found := _DOWNLOAD.fullmatch(name):
        return Metric(name, f"Time to download {found[1]} MB", "s", 1, False)
    if found := _FIRST.fullmatch(name):
        return Metric(name, f"Throughput of the first {found[1]} s", "Mbit/s", 1, True)
    if found := _STEADY_SHARE.fullmatch(name):
        return Metric(name, f"Percentile {float(found[1]):g} of steady-state throughput", "Mbit/s", 1, True)
    if found := _RESPONSE_OF.fullmatch(name):
        return Metric(name, f"Mean response time of users, {found[1]} B", "ms", 0, False)
    if found := _TIME_TO.fullmatch(name):
        return Metric(name, f"Time to the first {found[1]} Mbit/s", "s", 0, False)
    if found := _SHORT_TIME_TO.fullmatch(name):
        return Metric(name, f"Time to a short-time goodput of {found[1]} Mbit/s", "s", 0, False)
    near = difflib.get_close_matches(name, [*METRICS, *columns], 1)
    raise InputError(
        f"`{name}` is no metric; {f'did you mean `{near[0]}`? T' if near else 't'}here are {', '.join(METRICS)}, "
        "download_<size>_mb_s, first_<time>_s_mbps, steady_goodput_p<percent>_mbps, time_to_<rate>_mbps_s, "
        "short_time_to_<rate>_mbps_s, acked_goodput_mbps, "
        "link_rate_mbps, exchange_ms, response_ms and "
        "response_<bytes>_b_ms, and arithmetic over these and numeric columns"
    )


def _own(text: str, columns: Sequence[str]) -> Metric:
    """Return the metric of an expression."""
    titled = _TITLED.fullmatch(text.strip())
    found = parse(titled["expression"] if titled else text)
    for name in found.names:
        metric(name, columns)
    title, unit = (titled["title"].strip(), titled["unit"]) if titled else (found.text, None)
    return Metric(found.text, title, unit if unit is not None else found.unit or "", 2, expression=found)


def _titled(column: str) -> str:
    """Return the name of a column as words.

    Examples:
        >>> _titled("startup_sent_packets"), _titled("goodput_p10_mbps")
        ('Startup sent packets', 'Goodput p10')
    """
    words = column.split("_")
    kept = words[:-1] if len(words) > 1 and unit_of(column) not in ("", "packets") else words
    return " ".join(kept).capitalize()


def with_metric(flows: pl.DataFrame, name: str, results: Results) -> pl.DataFrame:
    """Return the flows with the metric as a column, null where a flow has none.

    Args:
        flows: rows of the table `flows`.
        name: the metric.
        results: where other tables are taken from.

    Raises:
        InputError: there is no metric of that name.
    """
    if name in flows.columns:
        return flows
    wanted = metric(name, numeric(flows))
    if wanted.expression:
        full = flows
        for one in wanted.expression.names:
            full = with_metric(full, one, results)
        return flows.with_columns(full.select(wanted.expression.value.alias(name)))
    if wanted.parts and set(wanted.parts) <= set(flows.columns):
        top, bottom = (pl.col(part).cast(pl.Float64) for part in wanted.parts)
        ratio = pl.when(bottom > 0).then(wanted.scale * top / bottom)
        return flows.with_columns(ratio.alias(name))
    if wanted.source:
        return _from_table(flows, wanted, *wanted.source, results)
    maker: Callable[[pl.DataFrame, float, Results], pl.DataFrame] | None = None
    number = 0.0
    if found := _DOWNLOAD.fullmatch(name):
        maker, number = _download_times, float(found[1])
    elif found := _TIME_TO.fullmatch(name):
        maker, number = _time_to_rate, float(found[1])
    elif found := _SHORT_TIME_TO.fullmatch(name):
        maker, number = _short_time_to_rate, float(found[1])
    elif found := _FIRST.fullmatch(name):
        maker, number = _rate_of_the_first, float(found[1])
    elif found := _STEADY_SHARE.fullmatch(name):
        maker, number = _steady_percentile, float(found[1])
    elif name == EXCHANGE:
        maker = _exchange_times
    elif name == ACKED:
        maker = _acked_goodput
    elif name == LINK_RATE:
        maker = _link_rates
    elif name == RESPONSES:
        maker = _response_times
    elif found := _RESPONSE_OF.fullmatch(name):
        maker, number = _response_times, float(found[1])
    if maker is None:
        return flows.with_columns(pl.lit(None, pl.Float64).alias(name))
    keys = maker(flows, number, results).rename({"value": name})
    return flows.join(keys, on=["run", "flow"], how="left", maintain_order="left")


def _from_table(flows: pl.DataFrame, wanted: Metric, table: str, column: str, results: Results) -> pl.DataFrame:
    if not results.has(table):
        return flows.with_columns(pl.lit(None, pl.Float64).alias(wanted.name))
    values = results.table(table).select("run", "flow", parse(column).value.alias(wanted.name))
    rows = values.group_by("run", "flow").agg(pl.col(wanted.name).mean())
    return flows.join(rows, on=["run", "flow"], how="left", maintain_order="left")


def numeric(flows: pl.DataFrame) -> list[str]:
    """Return the names of the columns of flows that hold numbers."""
    return [name for name, kind in flows.schema.items() if kind.is_numeric()]


def download_times(flows: pl.DataFrame, sizes_bytes: list[int], results: Results) -> pl.DataFrame:
    """Return when each flow had got so far.

    The times come from the table `milestones` where the study asked for these sizes, else from `series`, interpolated.

    Args:
        flows: rows of the table `flows`.
        sizes_bytes: the sizes.
        results: where the tables are taken from.

    Returns:
        Columns `run, flow, bytes, t_s` (seconds since the flow began); no row for a size that was not reached.
    """
    keys = flows.select("run", "flow", "start_s")
    if results.has("milestones"):
        reached = results.table("milestones")
        known = reached["bytes"].unique()
        if all(size in known for size in sizes_bytes):
            return reached.filter(pl.col("bytes").is_in(sizes_bytes)).join(keys, on=["run", "flow"], how="semi")
    rows: list[pl.DataFrame] = []
    if results.has("series"):
        series = results.table("series").select("run", "flow", "t_s", "acked_bytes").join(keys, on=["run", "flow"])
        for (run, flow), part in series.partition_by(["run", "flow"], as_dict=True, maintain_order=True).items():
            t = time_of_size((part["t_s"] - part["start_s"]).to_numpy(), part["acked_bytes"].to_numpy(), sizes_bytes)
            rows.append(pl.DataFrame({"run": run, "flow": flow, "bytes": sizes_bytes, "t_s": t}))
    if not rows:
        return pl.DataFrame(schema={"run": pl.UInt32, "flow": pl.String, "bytes": pl.UInt64, "t_s": pl.Float64})
    return pl.concat(rows).filter(pl.col("t_s").is_not_nan()).cast({"run": pl.UInt32, "bytes": pl.UInt64})


def _download_times(flows: pl.DataFrame, megabytes: float, results: Results) -> pl.DataFrame:
    times = download_times(flows, [round(megabytes * 1e6)], results)
    return times.select("run", "flow", pl.col("t_s").alias("value")).cast({"run": flows["run"].dtype})


def _time_to_rate(flows: pl.DataFrame, mbps: float, results: Results) -> pl.DataFrame:
    empty = pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    if not results.has("series"):
        return empty
    starts = flows.select("run", "flow", "start_s")
    series = results.table("series").filter(pl.col("goodput_mbps") >= mbps).join(starts, on=["run", "flow"])
    return series.group_by("run", "flow").agg((pl.col("t_s") - pl.col("start_s")).min().alias("value"))


def _rate_of_the_first(flows: pl.DataFrame, seconds: float, results: Results) -> pl.DataFrame:
    """Return the throughput of each flow in its first seconds, of those that last as long."""
    empty = pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    if not results.has("series"):
        return empty
    starts, t, key = flows.select("run", "flow", "start_s"), pl.col("t_s") - pl.col("start_s"), ["run", "flow"]
    series = results.table("series").join(starts, on=key).sort("t_s")
    series = series.with_columns(t.alias("t")).filter(pl.col("t") > 0)
    # The ends of intervals are instants of the run: the last one counts as far as it lies in the first seconds.
    length = (pl.col("t").clip(upper_bound=seconds) - pl.col("t").shift(1, fill_value=0.0)).clip(lower_bound=0.0)
    rows = series.group_by(key, maintain_order=True).agg(
        (pl.col("goodput_mbps") * length).sum().alias("carried"), pl.col("t").max().alias("until")
    )
    lasting = rows.filter(pl.col("until") >= seconds - 1e-6)
    return lasting.select(*key, (pl.col("carried") / seconds).alias("value"))


def _steady_percentile(flows: pl.DataFrame, percent: float, results: Results) -> pl.DataFrame:
    """Return a percentile of the throughput of each flow in those intervals of its series that its steady phase has."""
    empty = pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    if not results.has("series"):
        return empty
    begins = (pl.col("start_s") + pl.col("duration_s") - pl.col("steady_s")).alias("begins")
    series = results.table("series").sort("t_s")
    series = series.with_columns(pl.col("t_s").shift(1).over("run", "flow").alias("since"))
    steady = series.join(flows.select("run", "flow", begins), on=["run", "flow"]).filter(
        pl.col("since") >= pl.col("begins")
    )
    share = pl.col("goodput_mbps").quantile(percent / 100, "linear")
    return steady.group_by("run", "flow", maintain_order=True).agg(share.alias("value"))


def short_time(known: pl.DataFrame) -> tuple[Array, Array]:
    """Return the ends of the windows (s) and the short-time goodput in each (Mbit/s) of what a flow's sender knows.

    The short-time goodput is that of the last `SHORT_TIME_S` seconds (Caini 2009), at first of the time there is.

    Args:
        known: a table of `acknowledged`.
    """
    t = known["t_s"].to_numpy().astype(np.float64)
    if len(t) < 2:
        return np.empty(0), np.empty(0)
    length = np.diff(t, prepend=max(0.0, t[0] - float(np.median(np.diff(t)))))
    gained = np.diff(known["known_bytes"].to_numpy().astype(np.float64), prepend=0.0)
    return t, sliding_mean(t, length, 8e-6 * gained / length, SHORT_TIME_S)


def _short_time_to_rate(flows: pl.DataFrame, mbps: float, results: Results) -> pl.DataFrame:
    """Return the end of the first whole window in which each flow had this short-time goodput."""
    rows = []
    if results.has("series"):
        for (run, flow), known in acknowledged(results, flows).items():
            ends, goodput = short_time(known)
            reached = ends[(goodput >= mbps) & (ends >= SHORT_TIME_S)]
            rows += [(run, flow, float(reached[0]))] if len(reached) else []
    return pl.DataFrame(rows, {"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64}, orient="row")


def _acked_goodput(flows: pl.DataFrame, _number: float, results: Results) -> pl.DataFrame:
    """Return what was acknowledged of each flow by its end, over its duration."""
    rows = []
    if results.has("series"):
        durations = {(row["run"], row["flow"]): row["duration_s"] for row in flows.iter_rows(named=True)}
        for flow, known in acknowledged(results, flows).items():
            if durations[flow]:
                rows.append((*flow, 8e-6 * float(known["acked_bytes"][-1]) / durations[flow]))
    return pl.DataFrame(rows, {"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64}, orient="row")


def _link_rates(flows: pl.DataFrame, _number: float, results: Results) -> pl.DataFrame:
    """Return of each flow the mean rate of the link that carried most in its run."""
    if not results.has("links"):
        return pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    links = results.table("links").group_by("run", "link").agg(
        pl.col("delivered_bytes").sum(), pl.col("rate_mbps").mean().alias("value")
    )  # fmt: skip
    busiest = links.sort("delivered_bytes", "link", descending=[True, False]).unique("run", keep="first")
    return flows.select("run", "flow").join(busiest.select("run", "value"), on="run")


def _exchange_times(flows: pl.DataFrame, _number: float, results: Results) -> pl.DataFrame:
    if not results.has("exchanges"):
        return pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    return results.table("exchanges").group_by("run", "flow").agg(pl.col("duration_ms").mean().alias("value"))


def _response_times(flows: pl.DataFrame, size_bytes: float, results: Results) -> pl.DataFrame:
    """Return the mean duration of transactions: of the class that has responses of this size, or, of 0, of all."""
    if not results.has("responses"):
        return pl.DataFrame(schema={"run": flows["run"].dtype, "flow": pl.String, "value": pl.Float64})
    rows = results.table("responses").filter(pl.col("mean_ms").is_not_null())
    if size_bytes:
        rows = rows.filter((pl.col("least_bytes") <= size_bytes) & (size_bytes <= pl.col("most_bytes")))
    of_all = (pl.col("mean_ms") * pl.col("completed")).sum() / pl.col("completed").sum()
    return rows.group_by("run", "flow").agg(of_all.alias("value"))


def mean(values: pl.Series) -> float:
    """Return the mean of a column, NaN where it has no value.

    Examples:
        >>> mean(pl.Series([1, None, 3])), mean(pl.Series([], dtype=pl.Float64))
        (2.0, nan)
    """
    known = sample_of(values)
    return float(known.mean()) if len(known) else float("nan")


def largest(values: pl.Series) -> float:
    """Return the largest value of a column, 0 where it has none."""
    known = sample_of(values)
    return float(known.max()) if len(known) else 0.0


def group_value(flows: pl.DataFrame, wanted: Metric) -> float:
    """Return a metric of a group of flows that have it as a column; NaN where none has it.

    It is the mean over the flows; of power, the ratio of the means.

    Examples:
        >>> flows = pl.DataFrame({"goodput_mbps": [100.0, 200.0], "rtt_mean_ms": [500.0, 1000.0]})
        >>> group_value(flows, METRICS["power"])
        200.0
    """
    if wanted.parts is None or not wanted.of_means:
        return mean(flows[wanted.name])
    top, bottom = wanted.parts
    # Results of earlier versions do not have every column.
    if not {top, bottom} <= set(flows.columns):
        return float("nan")
    both = flows.select(pl.col(part).cast(pl.Float64) for part in wanted.parts).drop_nulls()
    if both.is_empty():
        return float("nan")
    below = mean(both[bottom])
    return wanted.scale * mean(both[top]) / below if below else float("nan")


def group_spread(flows: pl.DataFrame, wanted: Metric) -> float | None:
    """Return the standard deviation over the flows of what `group_value` is the mean of.

    None for a ratio of means, with fewer than two flows, and where they do not vary.
    """
    seen = sample(flows, wanted.name)
    return None if wanted.of_means or len(seen) == 0 else spread(seen)


def sample(flows: pl.DataFrame, name: str) -> Array:
    """Return the values of a metric of each flow that has it, shape (n,)."""
    return sample_of(flows[name])


def sample_of(values: pl.Series) -> Array:
    """Return the values of a column that are there, shape (n,)."""
    return np.asarray(values.drop_nulls().to_numpy(), dtype=np.float64)
