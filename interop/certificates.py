"""Self-signed application certificates for the OPC UA peers.

`certificates.py FOLDER` writes `server` and `client` as `NAME.cert.{der,pem}` and
`NAME.key.{der,pem}`: RSA 2048, SHA-256, with the key usages and the application
URI (`urn:interop:NAME`) that OPC UA part 6, 6.2.2 asks for. They are for one run
on one machine; every peer trusts every certificate.
"""

from __future__ import annotations

import datetime
import ipaddress
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=30)
ENCODINGS = {"der": Encoding.DER, "pem": Encoding.PEM}


def self_signed(name: str, key: rsa.RSAPrivateKey) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"interop {name}")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier(f"urn:interop:{name}"),
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")),
        ]
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=True,
        data_encipherment=True,
        key_cert_sign=True,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    extended = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # A clock that is a little behind must not refuse it.
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(extended, critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def write(folder: Path, name: str) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = self_signed(name, key)
    for extension, encoding in ENCODINGS.items():
        (folder / f"{name}.cert.{extension}").write_bytes(certificate.public_bytes(encoding))
        (folder / f"{name}.key.{extension}").write_bytes(
            key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption())
        )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: certificates.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("server", "client"):
        write(folder, name)


if __name__ == "__main__":
    main()
