"""The storage policy of a namespace, and where an object lies under it (control-plane §16.3)."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta

from dw_core.limits import EXTERNAL_PAYLOAD_THRESHOLD_BYTES

Driver = Literal["local", "s3", "gcs", "azure"]
DRIVERS: Final[tuple[Driver, ...]] = ("local", "s3", "gcs", "azure")
SCHEMES: Final[dict[Driver, str]] = {"local": "file", "s3": "s3", "gcs": "gs", "azure": "azure"}
_DRIVERS_BY_SCHEME: Final[dict[str, Driver]] = {
    **{scheme: driver for driver, scheme in SCHEMES.items()},
    "azure-blob": "azure",
}
_SEGMENT = re.compile(r"[A-Za-z0-9._=@+,~-]+", re.ASCII)
_URI = re.compile(r"([a-z0-9-]+)://([^/?#]*)/([^?#]*)")

Text = Annotated[str, Meta(max_length=2048)]


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the objects of a namespace go. ``disk`` names credentials that the server has been given; it takes none
    here. ``uri`` is a folder for the driver ``local``."""

    uri: Text | None = None
    disk: Text | None = None
    bucket: Text | None = None
    prefix: Text | None = None
    region: Text | None = None
    endpoint: Text | None = None
    auth_profile: Text | None = None


class StoragePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a namespace keeps large payloads; ``threshold_bytes`` counts bytes of a blob's text."""

    driver: Driver
    enabled: bool = True
    threshold_bytes: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    config: StorageConfig = StorageConfig()

    @property
    def effective_threshold_bytes(self) -> int:
        """Payloads of more bytes are kept outside the database."""
        return self.threshold_bytes or EXTERNAL_PAYLOAD_THRESHOLD_BYTES


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of objects: ``container`` is a bucket, or the absolute path of the root for the driver ``local``;
    ``prefix`` has neither a first nor a last slash."""

    driver: Driver
    disk: str | None = None
    container: str
    prefix: str = ""

    def key(self, codec: str, sha256: str) -> str:
        """Where the object of a content lies in the container."""
        return "/".join(part for part in (self.prefix, codec, sha256[:2], sha256) if part)

    def uri(self, key: str) -> str:
        """The address of an object in the container."""
        if self.driver == "local":
            return "file://" + quote(f"{self.container.rstrip('/')}/{key}")
        return f"{SCHEMES[self.driver]}://{self.container}/{key}"

    def key_of(self, uri: str) -> str | None:
        """The key of an object of this place, or None for an address that does not lie in it."""
        driver, container, path = split_uri(uri)
        if driver == self.driver == "local":
            root = self.container.strip("/")
            path = path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else ""
        elif driver != self.driver or container != self.container:
            return None
        is_inside = not self.prefix or path.startswith(f"{self.prefix}/")
        return path if is_inside and are_segments(path) else None


def split_uri(uri: str) -> tuple[Driver | None, str, str]:
    """Driver, container and key of an address; for ``local`` the container is empty and the key the path without its
    first slash. The driver is None for what is no address of an object."""
    matched = _URI.fullmatch(uri)
    driver = None if matched is None else _DRIVERS_BY_SCHEME.get(matched[1])
    if matched is None or driver is None or bool(matched[2]) == (driver == "local"):
        return None, "", ""
    return driver, matched[2], unquote(matched[3])


def are_segments(path: str) -> bool:
    """Whether a path is one or more plain names between slashes, none of which leads upwards."""
    return all(_SEGMENT.fullmatch(name) and name.strip(".") for name in path.split("/"))


def complaints(policy: StoragePolicy) -> dict[str, list[str]]:
    """What is wrong with a policy, by field; what only a disk can tell is left to the storage test."""
    config = policy.config
    found: dict[str, list[str]] = {}
    prefix = (config.prefix or "").strip("/")
    if prefix and not are_segments(prefix):
        found["config.prefix"] = ["must be plain names between slashes"]
    for field, name in (("bucket", config.bucket), ("disk", config.disk), ("region", config.region)):
        if name and (not _SEGMENT.fullmatch(name) or not name.strip(".")):
            found[f"config.{field}"] = ["must be a plain name"]
    if config.uri is not None:
        driver, _, path = split_uri(config.uri.rstrip("/") + "/x")
        if policy.driver != "local" or driver != "local" or not are_segments(path):
            found["config.uri"] = ["must be the file:/// address of a folder, for the driver local"]
    for field, text in (("endpoint", config.endpoint), ("auth_profile", config.auth_profile)):
        if text and not (text.isascii() and text.isprintable()):
            found[f"config.{field}"] = ["must be printable"]
    return found
