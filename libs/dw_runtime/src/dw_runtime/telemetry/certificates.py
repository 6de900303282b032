"""When the certificates end that this process connects to its stores with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from prometheus_client import Gauge
from psycopg.conninfo import conninfo_to_dict

from dw_runtime.settings.identity import Stores

UNREADABLE: Final = 0.0
"""What a file that cannot be read counts as: a certificate that ended long ago."""


def certificate_files(stores: Stores) -> dict[str, str]:
    """Files by what they are for, as far as the addresses of the stores name any."""
    named: dict[str, str] = {}
    if stores.database_url is not None:
        postgres = conninfo_to_dict(stores.database_url)
        named |= {"postgres_ca": str(postgres.get("sslrootcert") or "")}
        named |= {"postgres_client": str(postgres.get("sslcert") or "")}
    if stores.redis_url is not None:
        redis = dict(parse_qsl(urlsplit(stores.redis_url).query))
        named |= {"redis_ca": redis.get("ssl_ca_certs", ""), "redis_client": redis.get("ssl_certfile", "")}
    return {use: path for use, path in named.items() if path not in ("", "system")}


def watch_certificates(gauge: Gauge, stores: Stores) -> None:
    """Have every scrape read the files anew: they are replaced while processes run."""
    for use, path in certificate_files(stores).items():
        gauge.labels(use).set_function(partial(expiry, path))


def expiry(path: str) -> float:
    """The moment in seconds since 1970 at which the first of the certificates in a file ends."""
    try:
        certificates = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError):
        return UNREADABLE
    return min(certificate.not_valid_after_utc.timestamp() for certificate in certificates)
