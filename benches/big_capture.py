# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes a capture of any size to standard output: downloads at 100 Mbit/s, one after the other, with nothing lost.

`.venv/bin/python benches/big_capture.py 10 50 | perigee analyze -` has 10 GB in 50 connections; peak memory is
`VmHWM` in `/proc/PID/status`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

import numpy as np

SERVER, CLIENT = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 1])
RECORD, ETHERNET, IP = 16, 14, 20
TCP = RECORD + ETHERNET + IP
BATCH = 20_000
STAMP = b"\1\1\x08\x0a" + bytes(8)
SYN_OPTIONS = b"\2\4\5\xb4\1\3\3\7"


def packet(
    ends: tuple[bytes, bytes], ports: tuple[int, int], numbers: tuple[int, int], kind: tuple[int, bytes, int]
) -> bytes:
    """Return a frame; `kind` is flags, options and bytes of payload."""
    flags, options, payload = kind
    tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, (20 + len(options)) // 4 << 4, flags, 65000, 0, 0) + options
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, IP + len(tcp) + payload, 0, 0x4000, 60, 6, 0, *ends)
    return b"\2" * 12 + b"\x08\x00" + ip + tcp + bytes(payload)


def record(at_s: float, frame: bytes) -> bytes:
    """Return a frame with its head in the file."""
    return struct.pack("<IIII", int(at_s), int(at_s % 1 * 1e6), len(frame), len(frame)) + frame


def flow(port: int, began_s: float, pairs: int) -> Iterator[tuple[bytes, float]]:
    """Yield the bytes of a connection, and the instant behind them: two data packets, an acknowledgement, and so on."""
    up, down, back, forth = (CLIENT, SERVER), (SERVER, CLIENT), (port, 443), (443, port)
    opened = [
        (up, back, (0, 0), (2, SYN_OPTIONS, 0)),
        (down, forth, (0, 1), (18, SYN_OPTIONS, 0)),
        (up, back, (1, 1), (16, b"", 0)),
    ]
    yield b"".join(record(began_s + 0.025 * n, packet(*one)) for n, one in enumerate(opened)), began_s
    began_s += 0.06
    data, answer = (
        record(0, packet(down, forth, (0, 1), (16, STAMP, 1448))),
        record(0, packet(up, back, (1, 0), (16, STAMP, 0))),
    )
    rows = np.tile(np.frombuffer(data + data + answer, np.uint8), (BATCH, 1))
    step_s = rows.shape[1] * 8 / 100e6
    for first in range(0, pairs, BATCH):
        place = np.arange(first, min(first + BATCH, pairs))
        for nth, at in enumerate((0, len(data), 2 * len(data))):
            time_s = began_s + (place + 0.4 * nth) * step_s
            fields = [
                (at, np.floor(time_s), "<u4"),
                (at + 4, time_s % 1 * 1e6, "<u4"),
                (at + TCP + 24, (time_s - 1.7e9) * 1000, ">u4"),
            ]
            number = (1 + (2 * place + min(nth, 2)) * 1448) % 2**32
            fields.append((at + TCP + (4 if nth < 2 else 8), number, ">u4"))
            for column, values, kind in fields:
                rows[: len(place), column : column + 4] = values.astype(kind).view(np.uint8).reshape(-1, 4)
        yield rows[: len(place)].tobytes(), began_s + (place[-1] + 1) * step_s


def main(gigabytes: float, flows: int) -> None:
    """Write the capture."""
    out, now_s = sys.stdout.buffer, 1.7e9
    following_s = now_s
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
    for port in range(20_000, 20_000 + flows):
        for part, ended_s in flow(port, now_s, max(int(gigabytes * 1e9 / flows / 3130), 1)):
            out.write(part)
            following_s = ended_s + 0.1
        now_s = following_s


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
