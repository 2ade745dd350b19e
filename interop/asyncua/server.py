"""asyncua as a server for opcua-perf: `server.py [PORT] [--user NAME:PASSWORD] [--pki FOLDER]`.

Offers `ns=1;i=42`, browse name `current-time-nanoseconds`, under Objects: a
read-only UInt64 with the nanoseconds of the day, made at each read. Security None
always; with --pki (see certificates.py) also Basic256Sha256, signed, and signed
and encrypted. With --user anonymous logins are refused. Prints `listening on URL`
once it accepts connections (port 0, the default: a free one).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import logging
import time
from pathlib import Path

from asyncua import Server, ua
from asyncua.crypto.permission_rules import User, UserRole

DAY_NS = 86_400_000_000_000
NODE = ua.NodeId(42, 1)
# The wall clock of the start and the monotonic clock since: falls at midnight only.
START_WALL, START = time.time_ns(), time.monotonic_ns()


class OneUser:
    """Lets one user in, by password."""

    def __init__(self, login: str) -> None:
        self._name, _, self._password = login.partition(":")

    def get_user(self, _server, username=None, password=None, certificate=None) -> User | None:
        if username == self._name and hmac.compare_digest(password or "", self._password):
            return User(role=UserRole.User, name=username)
        return None


def nanoseconds_of_day(_node: ua.NodeId, _attribute: ua.AttributeIds) -> ua.DataValue:
    now = (START_WALL + time.monotonic_ns() - START) % DAY_NS
    return ua.DataValue(ua.Variant(now, ua.VariantType.UInt64))


async def serve(port: int, login: str | None, pki: Path | None) -> None:
    server = Server(user_manager=OneUser(login) if login else None)
    await server.init()
    await server.set_application_uri("urn:interop:server")
    server.set_endpoint(f"opc.tcp://127.0.0.1:{port}")
    policies = [ua.SecurityPolicyType.NoSecurity]
    if pki:
        await server.load_certificate(pki / "server.cert.der")
        await server.load_private_key(pki / "server.key.pem")
        policies += [
            ua.SecurityPolicyType.Basic256Sha256_Sign,
            ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt,
        ]
    server.set_security_policy(policies)
    server.set_identity_tokens([ua.UserNameIdentityToken if login else ua.AnonymousIdentityToken])

    name = ua.QualifiedName("current-time-nanoseconds", 1)
    await server.nodes.objects.add_variable(NODE, name, ua.Variant(0, ua.VariantType.UInt64))
    server.set_attribute_value_callback(NODE, nanoseconds_of_day)

    async with server:
        # asyncua has no public way to ask for the port that it got.
        address = server.bserver._server.sockets[0].getsockname()
        print(f"listening on opc.tcp://127.0.0.1:{address[1]}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int, nargs="?", default=0)
    parser.add_argument("--user", metavar="NAME:PASSWORD")
    parser.add_argument("--pki", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.port, arguments.user, arguments.pki))


if __name__ == "__main__":
    main()
