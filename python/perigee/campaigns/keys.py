# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The keys of a campaign's manifest; `docs/reference/campaign.md` is generated from them."""

from __future__ import annotations

from perigee.groups.keys import Key

DIRECTIONS = ("down", "up")
PLACES = ("client", "server", "between")

CAMPAIGN = (
    Key("name", "text", "required", "Name of the results: letters, digits, `-`, `_` and `.`."),
    Key("title", "text", '""', "Headline of the report."),
    Key("about", "text", '""', "What was measured, where and when; one paragraph."),
    Key(
        "user", "list of addresses", "[]",
        "Addresses or networks of the user's side, as `10.0.0.0/8`: data that go there go down. Without it, the end "
        "that opens a connection is the user's.",
    ),
    Key(
        "zone", "time zone", '"UTC"',
        "Zone of the times in names, as `Europe/Berlin`; one that stands in them (`%z`) wins.",
    ),
    Key(
        "time_within", "time", '"10 min"',
        "How far the time in a name may be from that of the first packet in the file, at most 12 h.",
    ),
    Key("measure", "table", "{}", "What is measured of each flow: `[measure]`, see below."),
    Key("recordings", "tables", "required", "The files, and what each is: `[[recordings]]`, see below."),
)  # fmt: skip
"""The head of `campaign.toml`."""

MEASURE = (
    Key("series", "time", '"1 s"', "Interval of the time series of captured flows."),
    Key("startup", "size, time or off", '"off"', "End of the start-up phase: the first `50 MB`, or `30 s`."),
    Key("steady", "share or off", '"50 %"', "The steady phase is this last share of the bytes of a flow."),
)
"""`[measure]` of `campaign.toml`."""

RECORDINGS = (
    Key(
        "files", "pattern", "required",
        "Names of the files below the folder, as `{round}/{cc}-{place}.pcap`. `*` is any part of a name, `**/` any "
        "folders, and a word in braces is what the name says: `cc`, `round`, `direction`, `place`, `time`, `part` (of "
        "a capture in parts), or a word of your own, as `proxy`, which is then what varies.",
    ),
    Key("except", "list of patterns", "[]", "Files that are left out; the report counts them."),
    Key("flow", "text", "", "Name of the flow. Without it: `transfer`, `ping` or `probe`, by what the file is."),
    Key("cc", "text", "", "Congestion control of all these files. Without it: what the name or the file says."),
    Key("round", "number", "", "Round of all these files. Without it: what the name says, or their order in time."),
    Key("direction", "down or up", "", "Direction of the data. Without it: what the name or the file says."),
    Key("place", "client, server or between", "", "Where they were captured. Without it: as name or file says."),
    Key("set", "table of texts", "{}", "What else holds for all these files, as `{ proxy = \"without\" }`."),
    Key(
        "names", "tables of texts", "{}",
        "What a word in a name stands for, as `{ cc = { pcc = \"vivace\" }, proxy = { p1 = \"with\" } }`.",
    ),
    Key("time", "form", "", "Form of `{time}`, as `%Y-%m-%d_%H%M%S`; required where a name has it."),
    Key("port", "number", "", "Port of the server: only flows to or from it are the transfer."),
    Key("count", "number", "1", "Transfers in each file, the largest; several are `NAME.1`, `NAME.2`, in time."),
)  # fmt: skip
"""A `[[recordings]]` of `campaign.toml`."""
