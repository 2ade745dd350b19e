"""asyncua as a client of opcua-perf: `client.py URL [READS] [NODE-ID] [--user NAME:PASSWORD]
[--pki FOLDER] [--mode none|sign|sign-and-encrypt]`.

Reads one node READS times (1000), one after the other. The default node,
`ns=1;i=42`, must be a UInt64 that rises from read to read. A read that fails or a
wrong value ends it with exit code 1. The last line on stderr tells reads per second.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from pathlib import Path

from asyncua import Client, ua
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256

DEFAULT_NODE = "ns=1;i=42"
HALF_A_DAY_NS = 43_200_000_000_000
MODES = {"sign": ua.MessageSecurityMode.Sign, "sign-and-encrypt": ua.MessageSecurityMode.SignAndEncrypt}


class WrongValue(Exception):
    """The server answered, but not what the node has to be."""


async def configure(url: str, login: str | None, pki: Path | None, mode: str) -> Client:
    client = Client(url, timeout=10)
    client.application_uri = "urn:interop:client"
    if login:
        name, _, password = login.partition(":")
        client.set_user(name)
        client.set_password(password)
    if mode != "none":
        if pki is None:
            raise WrongValue(f"--mode {mode} needs --pki")
        await client.set_security(
            SecurityPolicyBasic256Sha256,
            certificate=str(pki / "client.cert.der"),
            private_key=str(pki / "client.key.pem"),
            mode=MODES[mode],
        )
    return client


async def read_loop(client: Client, node_id: str, reads: int) -> float:
    """Reads the node; returns the seconds that it took."""
    node = client.get_node(node_id)
    previous = -1
    start = time.perf_counter()
    for _ in range(reads):
        value = await node.read_data_value()
        if node_id != DEFAULT_NODE:
            continue
        if value.Value.VariantType != ua.VariantType.UInt64:
            raise WrongValue(f"the value is a {value.Value.VariantType.name}, not a UInt64")
        now = value.Value.Value
        if now <= previous < now + HALF_A_DAY_NS:
            raise WrongValue(f"the value does not rise: {previous}, then {now}")
        previous = now
    return time.perf_counter() - start


async def run(arguments: argparse.Namespace) -> None:
    client = await configure(arguments.url, arguments.user, arguments.pki, arguments.mode)
    async with client:
        seconds = await read_loop(client, arguments.node, arguments.reads)
    rate = arguments.reads / seconds
    print(f"{arguments.reads} reads in {seconds:.3f} s: {rate:.0f} reads/s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("reads", type=int, nargs="?", default=1000)
    parser.add_argument("node", nargs="?", default=DEFAULT_NODE)
    parser.add_argument("--user", metavar="NAME:PASSWORD")
    parser.add_argument("--pki", type=Path)
    parser.add_argument("--mode", choices=["none", *MODES], default="none")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    try:
        asyncio.run(run(arguments))
    except (ua.UaError, OSError, ValueError, WrongValue) as error:
        sys.exit(f"client.py: {arguments.url}: {error or type(error).__name__}")


if __name__ == "__main__":
    main()
