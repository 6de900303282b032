"""A scrape says when the certificates of the stores end."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dw_runtime.settings import load
from dw_runtime.telemetry.certificates import certificate_files, watch_certificates
from dw_runtime.telemetry.metrics import Metrics

ENDS = datetime.datetime(2031, 5, 1, tzinfo=datetime.UTC)


def certificate(ends: datetime.datetime) -> bytes:
    """A self-signed certificate as PEM."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(ends - datetime.timedelta(days=9)).not_valid_after(ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_first_to_end_of_a_bundle_counts_and_a_new_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(certificate(ENDS + datetime.timedelta(days=2)) + certificate(ENDS))
    stores = load({"DB_HOST": "db", "DB_SSLMODE": "verify-full", "DB_SSLROOTCERT": str(file)}).stores
    metrics = Metrics()
    watch_certificates(metrics.certificate_expiry, stores)
    name, labels = "dw_certificate_expiry_timestamp_seconds", {"use": "postgres_ca"}
    assert metrics.registry.get_sample_value(name, labels) == ENDS.timestamp()
    file.write_bytes(certificate(ENDS + datetime.timedelta(days=1)))
    assert metrics.registry.get_sample_value(name, labels) == ENDS.timestamp() + 86400
    file.unlink()
    assert metrics.registry.get_sample_value(name, labels) == 0.0


def test_only_files_that_the_addresses_name_are_read() -> None:
    assert certificate_files(load({}).stores) == {}
    files = {"REDIS_SSLROOTCERT": "/ca", "REDIS_SSLCERT": "/c", "REDIS_SSLKEY": "/k", "DB_SSLROOTCERT": "system"}
    stores = load({"DB_HOST": "db", "REDIS_HOST": "r", "REDIS_SCHEME": "tls", **files}).stores
    assert certificate_files(stores) == {"redis_ca": "/ca", "redis_client": "/c"}
