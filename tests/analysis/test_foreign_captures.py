# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Captures as people have them: what they are read through is named, and standard input leaves nothing behind."""

from __future__ import annotations

import io
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import ROOT, Perigee
from perigee.analysis.recordings import analyze
from perigee.analysis.standard_input import STANDARD_INPUT, on_disk
from perigee.errors import InputError

CASES = ROOT / "crates/perigee-analyze/tests/cases"


def test_tunnels_are_named_and_short_packets_refused_with_their_length(perigee: Perigee) -> None:
    for name, said in {"gre": "102 packets came through GRE; ", "mpls": "102 packets came through MPLS; "}.items():
        found = analyze([CASES / f"{name}.pcap.xz"])
        assert found is not None
        assert any(note.startswith(said) for note in found.runs[0].notes)
        assert found.table("flows")["received_bytes"].to_list() == [67_200]
    refused = perigee("analyze", CASES / "snap-34.pcap.xz")
    assert (refused.returncode, "cut off after 34 bytes" in refused.stderr) == (2, True), refused.stderr


def test_a_capture_from_standard_input_is_read_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lzma.decompress((CASES / "plain.pcap.xz").read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(plain)))
    with on_disk([STANDARD_INPUT, Path("other")]) as files:
        assert files[1] == Path("other")
        found = analyze(files[:1])
    assert found is not None
    assert (found.runs[0].name, found.table("flows")["sent_packets"].to_list()) == ("standard-input", [51])
    assert not files[0].parent.exists()
    with pytest.raises(InputError, match="- is there 2 times"), on_disk([STANDARD_INPUT] * 2):
        pass
