"""Disks: what the server has been given access to, by name (``DW_EXTERNAL_PAYLOAD_DISKS``)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from dw_core.payloads.policy import Place, StoragePolicy, split_uri
from dw_runtime.payloads.errors import NoDriver
from dw_runtime.payloads.objects import Objects
from dw_runtime.settings import SettingsError

ObjectDriver = Literal["s3", "gcs", "azure"]
RETRIES_MAX: Final = 2


class Disk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access to buckets of one kind. ``bucket`` is the only one that may be used, or None for any; ``options`` are
    those of the storage client, credentials, region and endpoint among them. ``allow_http`` is for an endpoint without
    TLS."""

    driver: ObjectDriver
    bucket: str | None = None
    options: dict[str, Any] = {}
    allow_http: bool = False


def read_disks(text: str | None) -> dict[str, Disk]:
    """The disks of a setting; raises ``SettingsError`` without repeating any of it."""
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Disk])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        drivers = ", ".join(get_args(ObjectDriver))
        raise SettingsError(
            "DW_EXTERNAL_PAYLOAD_DISKS must be a JSON object of disks, each with a driver "
            f"({drivers}) and, if need be, bucket and options."
        ) from None


class Disks:
    """Opens the places that policies and addresses name. ``timeout_seconds`` bounds one operation of a storage."""

    def __init__(self, local_root: Path | None, disks: dict[str, Disk], *, timeout_seconds: float) -> None:
        self._root = None if local_root is None else local_root.resolve()
        self._disks = disks
        self._timeout = timeout_seconds
        self._opened: dict[tuple[str, str | None, str], Objects] = {}

    def drivers(self) -> list[str]:
        """The drivers that the server has been given something for."""
        return sorted({disk.driver for disk in self._disks.values()} | ({"local"} if self._root else set()))

    def place(self, policy: StoragePolicy) -> Place:
        """Where the objects of a policy lie; raises :class:`NoDriver` for a place that the server cannot reach."""
        config = policy.config
        prefix = (config.prefix or "").strip("/")
        if policy.driver == "local":
            root = self._local_root()
            if config.uri is not None:
                below = Place(driver="local", container=root).key_of(config.uri.rstrip("/") + "/x")
                if below is None:
                    raise NoDriver("The folder of the policy lies outside the folder that the server may use.")
                prefix = "/".join(part for part in (below.rpartition("/")[0], prefix) if part)
            return Place(driver="local", container=root, prefix=prefix)
        disk = self._disk(policy.driver, config.disk)
        bucket = config.bucket or disk.bucket
        if not bucket:
            raise NoDriver("Neither the policy nor its disk names a bucket.")
        place = Place(driver=policy.driver, disk=config.disk, container=bucket, prefix=prefix)
        for name in ("region", "endpoint"):
            wanted = getattr(config, name)
            if wanted and disk.options.get(name) != wanted:
                raise NoDriver(f"The disk {config.disk} has another {name} than the policy.")
        return place

    def objects(self, place: Place) -> Objects:
        """The objects of a place; raises :class:`NoDriver`."""
        key = (place.driver, place.disk, place.container)
        if key not in self._opened:
            self._opened[key] = self._open(place)
        return self._opened[key]

    def locate(self, uri: str, disk: str | None) -> tuple[Objects, str]:
        """The objects among which an address lies, and its key there; raises :class:`NoDriver`."""
        driver, container, _ = split_uri(uri)
        if driver is None:
            raise NoDriver("The address of the object is none.")
        place = Place(driver=driver, disk=disk, container=self._local_root() if driver == "local" else container)
        found = place.key_of(uri)
        if found is None:
            raise NoDriver("The object lies outside the folder that the server may use.")
        return self.objects(place), found

    def _local_root(self) -> str:
        if self._root is None:
            raise NoDriver("The server has no folder for the driver local (DW_EXTERNAL_PAYLOAD_LOCAL_ROOT).")
        return str(self._root)

    def _disk(self, driver: str, name: str | None) -> Disk:
        disk = None if name is None else self._disks.get(name)
        if disk is None or disk.driver != driver:
            raise NoDriver(f"The server has no disk {name or 'without a name'} for the driver {driver}.")
        return disk

    def _open(self, place: Place) -> Objects:
        if place.driver == "local":
            try:
                Path(place.container).mkdir(parents=True, exist_ok=True)
                return Objects(LocalStore(place.container), Path(place.container), self._timeout)
            except (BaseError, OSError) as error:
                raise NoDriver("The folder for the driver local cannot be used.") from error
        disk = self._disk(place.driver, place.disk)
        if disk.bucket is not None and disk.bucket != place.container:
            raise NoDriver(f"The disk {place.disk} is not for this bucket.")
        stores: dict[str, Any] = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}
        try:
            store = stores[place.driver](
                place.container,
                config=disk.options,
                client_options={"timeout": timedelta(seconds=self._timeout), "allow_http": disk.allow_http},
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=self._timeout)},
            )
        except (BaseError, TypeError, ValueError) as error:
            raise NoDriver(f"The options of the disk {place.disk} do not work.") from error
        return Objects(store, None, self._timeout)
