"""What the interop matrices share: child processes that never outlive a cell, and the table.

A cell starts the programs that it needs through `Peers`, and raises `Failed` when
one of them is not as it should be. Every wait is bounded; whatever ends a cell
(success, failure, time-out, Ctrl-C) kills its programs, and the kernel kills them
when the matrix itself is killed. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

INTEROP = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("PERF_CACHE") or Path.home() / ".cache" / "zmq-perf").resolve()
PYTHON = CACHE / "venv" / "bin" / "python"

POLL_S = 0.005
START_S = 20.0
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
# Even a SIGKILL of the matrix leaves nothing behind.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


class Failed(Exception):
    """Why a cell does not hold."""


def build(script: str) -> Path:
    """Runs a build script of this folder; returns the folder of programs that it prints."""
    done = subprocess.run([INTEROP / script], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{script} failed; run interop/install first")
    return Path(done.stdout.strip())


class Peer:
    """One program that runs; its output goes to files, so that it never blocks on a pipe."""

    def __init__(self, argv: Sequence[str], process: asyncio.subprocess.Process, files: Path) -> None:
        self.argv = argv
        self._process = process
        self._files = files

    @property
    def name(self) -> str:
        return " ".join(Path(word).name if word.startswith("/") else word for word in self.argv)

    @property
    def stdout(self) -> str:
        return self._files.with_suffix(".out").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._files.with_suffix(".err").read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        return self._process.returncode

    async def expect_exit(self, code: int = 0) -> None:
        actual = await self._process.wait()
        if actual != code:
            raise Failed(f"`{self.name}` ended with {actual} instead of {code}")

    async def find(self, pattern: str) -> re.Match[str]:
        """Waits until it has printed what matches."""
        match: list[re.Match[str]] = []

        def found() -> bool:
            match.extend(itertools.islice(re.finditer(pattern, self.stdout + self.stderr), 1))
            return bool(match)

        await self.wait_until(found, f"print {pattern}")
        return match[0]

    async def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for something that it does while it runs."""
        deadline = asyncio.get_running_loop().time() + START_S
        while asyncio.get_running_loop().time() < deadline:
            # Asked first: what it did just before it ended counts.
            ended = self.code is not None
            if condition():
                return
            if ended:
                raise Failed(f"`{self.name}` ended with {self.code} and did not {what}")
            await asyncio.sleep(POLL_S)
        raise Failed(f"`{self.name}` did not {what} within {START_S:.0f} s")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the program, if it still runs."""
        if self.code is None:
            self._process.send_signal(number)

    async def kill(self) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    def tail(self) -> Iterable[str]:
        """The command and the end of its output, for the report of a failure."""
        yield f"    $ {' '.join(self.argv)}  -> {'killed' if self.code is None or self.code < 0 else self.code}"
        for stream, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            for line in text.splitlines()[-6:]:
                yield f"      {stream}: {line[:300]}"


class Peers:
    """The programs of one cell: `async with Peers(folder) as peers`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._peers: list[Peer] = []

    async def __aenter__(self) -> Peers:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        for peer in self._peers:
            await peer.kill()
        if isinstance(error, Failed):
            for peer in self._peers:
                for line in peer.tail():
                    error.add_note(line)

    async def start(self, argv: Sequence[str]) -> Peer:
        files = Path(tempfile.mkdtemp(dir=self._folder)) / "peer"
        with files.with_suffix(".out").open("wb") as out, files.with_suffix(".err").open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                *DIE_WITH_PARENT,
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                # Killed programs do not clean up; the matrix does.
                env={**os.environ, "TMPDIR": str(self._folder)},
            )
        peer = Peer(argv, process, files)
        self._peers.append(peer)
        return peer


async def all_succeed(peers: Sequence[Peer], seconds: float) -> None:
    """Waits until all have ended with exit code 0, or fails as soon as one does not."""
    waits = [asyncio.create_task(peer.expect_exit()) for peer in peers]
    try:
        done, late = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for wait in done:
            wait.result()
        if late:
            names = ", ".join(f"`{peer.name}`" for peer in peers if peer.code is None)
            raise Failed(f"{names} did not end within {seconds:.0f} s")
    finally:
        for wait in waits:
            wait.cancel()


def is_listening(port: int) -> bool:
    """Asks the kernel, since a connection would be taken for a peer."""
    sockets = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(fields[1].endswith(f":{port:04X}") and fields[3] == LISTEN for fields in map(str.split, sockets))


@dataclass(frozen=True)
class Cell:
    """One check; `run` gets a folder for its files."""

    name: str
    run: Callable[[Path], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns; None where a column has no such cell."""

    labels: Sequence[str]
    cells: Sequence[Cell | None]


class Table:
    """Runs rows of cells, some cells at a time, and prints each row when it is known."""

    def __init__(self, headers: Sequence[str], columns: Sequence[str], jobs: int, only: str) -> None:
        self._jobs = asyncio.Semaphore(jobs)
        self._only = re.compile(only)
        self._headers = headers
        self._columns = columns
        self._width = max(10, *map(len, columns))
        self._passed = 0
        self._failures: list[str] = []

    def wants(self, row: Row) -> bool:
        """Whether --only leaves anything of a row."""
        return any(cell and self._only.search(cell.name) for cell in row.cells)

    async def run(self, rows: Sequence[Row], folder: Path) -> None:
        async with asyncio.TaskGroup() as group:
            started = [
                (row, [group.create_task(self._check(cell, folder)) for cell in row.cells])
                for row in rows
                if self.wants(row)
            ]
            for row, checks in started:
                self._print(row.labels, [await check for check in checks])

    def print_header(self) -> None:
        self._print(self._headers, self._columns)

    def finish(self) -> int:
        """Prints the failures and the count; returns the exit code."""
        for failure in self._failures:
            print(f"\n{failure}")
        print(f"\n{self._passed} passed, {len(self._failures)} failed")
        return 0 if self._passed and not self._failures else 1

    async def _check(self, cell: Cell | None, folder: Path) -> str:
        if cell is None or not self._only.search(cell.name):
            return "-"
        async with self._jobs:
            try:
                await cell.run(folder)
            except Failed as failure:
                notes = getattr(failure, "__notes__", [])
                self._failures.append("\n".join([f"FAIL {cell.name}: {failure}", *notes]))
                return "FAIL"
        self._passed += 1
        return "ok"

    def _print(self, labels: Sequence[str], values: Sequence[str]) -> None:
        left = "  ".join(f"{label:<14}" for label in labels)
        right = "  ".join(f"{value:>{self._width}}" for value in values)
        print(f"{left}  {right}", flush=True)


def command_line(description: str, tools: str, example: str) -> argparse.ArgumentParser:
    """The options that both matrices have; `tools` are ours, `example` is a cell's name."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bin", type=Path, metavar="DIR", help=f"folder of our {tools}; without it the peers only")
    parser.add_argument("--stack", metavar="NAME", help="passed to ours as --stack NAME")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help=f"cells whose name this regex finds; a name: {example!r}"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cells at a time (2)")
    return parser


def run_main(matrix: Callable[[Path], Coroutine[None, None, int]]) -> None:
    """Runs a matrix with a folder for its files; Ctrl-C and SIGTERM end it with 130."""
    if missing := [tool for tool in (DIE_WITH_PARENT[0], str(PYTHON)) if not shutil.which(tool)]:
        sys.exit(f"{', '.join(missing)} is missing; run interop/install")
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        try:
            code = asyncio.run(matrix(Path(folder)))
        except KeyboardInterrupt:
            code = 130
    sys.exit(code)
