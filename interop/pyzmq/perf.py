"""What the four pyzmq peers share: the command line, the sockets, the printed lines.

Arguments, stdout and the keys of the CURVE runs are those of libzmq's perf tools
(`perf/*.cpp`). Two things differ, so that the peers can be driven by scripts: errors
go to stderr with exit code 1, and an end that binds tells its address on stderr
(`listening on tcp://127.0.0.1:PORT`), for `tcp://127.0.0.1:*`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import zmq

SERVER_SECRET = b"{X}#>t#jRGaQ}gMhv=30r(Mw+87YGs+5%kh=i@f8"
SERVER_PUBLIC = b"DX4nh=yUn{-9ugra0X3Src4SU-4xTgqxcYY.+<SH"
CLIENT_SECRET = b"9R9bV}[6z6DC-%$!jTVTKvWc=LEL{4i4gzUe$@Zx"
CLIENT_PUBLIC = b"<n^oA}I:66W+*ds3tAmi1+KJzv-}k&fC2aA5Bj0K"


@dataclass(frozen=True)
class Arguments:
    endpoint: str
    size: int
    count: int
    curve: bool


def arguments(operands: str) -> Arguments:
    """Reads the command line; `operands` is upstream's usage text after the name."""
    words = sys.argv[1:]
    most = len(operands.split())
    if not 3 <= len(words) <= most:
        sys.exit(f"usage: {Path(sys.argv[0]).name} {operands}")
    return Arguments(words[0], int(words[1]), int(words[2]), len(words) == 4 and int(words[3]) != 0)


def bind(socket: zmq.Socket, endpoint: str) -> None:
    socket.bind(endpoint)
    print(f"listening on {socket.last_endpoint.decode()}", file=sys.stderr, flush=True)


def receive(socket: zmq.Socket, size: int) -> zmq.Frame:
    message = socket.recv(copy=False)
    if len(message) != size:
        sys.exit(f"message of incorrect size received: {len(message)} B instead of {size} B")
    return message


class Stopwatch:
    """Whole microseconds, as `zmq_stopwatch_*`."""

    def __init__(self) -> None:
        self._start = time.perf_counter_ns()

    def elapsed_us(self) -> int:
        return (time.perf_counter_ns() - self._start) // 1000


def print_latency(run: Arguments, elapsed_us: int) -> None:
    print(f"message size: {run.size} [B]")
    print(f"roundtrip count: {run.count}")
    print(f"average latency: {elapsed_us / (run.count * 2):.3f} [us]")


def print_throughput(run: Arguments, elapsed_us: int) -> None:
    per_second = run.count / max(elapsed_us, 1) * 1_000_000
    print(f"message size: {run.size} [B]")
    print(f"message count: {run.count}")
    print(f"mean throughput: {int(per_second)} [msg/s]")
    print(f"mean throughput: {per_second * run.size * 8 / 1_000_000:.3f} [Mb/s]")
