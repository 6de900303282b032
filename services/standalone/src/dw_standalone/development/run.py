"""Start the stores, prepare the database, start the roles, wait, and stop it all in the opposite order."""

from __future__ import annotations

import http.client
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from msgspec import structs

from dw_runtime.process import StartupError
from dw_runtime.process.listen import open_listener
from dw_runtime.store.migrate import SchemaDiffers
from dw_runtime.telemetry.logs import configure_logs
from dw_standalone import administration
from dw_standalone.development.plan import DEFAULT_HOST, DEFAULT_PORT, TOKEN, Process, plan
from dw_standalone.embedded import EmbeddedServices
from dw_standalone.embedded.child import Child
from dw_standalone.roles import read_settings

READY_SECONDS = 30
PAUSE_SECONDS = 0.05
WATCH_SECONDS = 0.5
ROLE_STOP_SECONDS = 2.5
PAYLOAD_ROOT = "DW_EXTERNAL_PAYLOAD_LOCAL_ROOT"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """The process was told to stop. Not an ``Exception``: nothing but the outermost frame may catch it."""


def run(
    environ: Mapping[str, str],
    data_folder: Path | None,
    host: str | None,
    port: int | None,
    processes: int,
    is_split: bool,
) -> int:
    """Run everything until a signal comes; return 0 after a clean end.

    ``data_folder`` None keeps no data. Raises :class:`StartupError` or :class:`SettingsError` with a sentence when
    something cannot start, and when a process ends by itself.
    """
    given = read_settings(environ)
    configure_logs(environ.get("DW_LOG_LEVEL") or "warning", role="dev")
    roles = plan(environ, host, port, processes, is_split)
    for role in roles:
        open_listener(role.host, role.port).close()
    try:
        with (
            _stop_on_signals(),
            EmbeddedServices(
                data_folder, database_url=given.stores.database_url, redis_url=given.stores.redis_url
            ) as services,
        ):
            stores = structs.replace(given.stores, database_url=services.database_url, redis_url=services.redis_url)
            _expand(services.database_url, None if given.stores.database_url else data_folder)
            administration.run_bootstrap(structs.replace(given, stores=stores))
            prepared = _with_payloads(_with_stores(environ, services), services.folder)
            _run_roles(plan(prepared, host, port, processes, is_split), services, data_folder)
    except Stopped:
        print("Stopped.", flush=True)
    return 0


def _expand(database_url: str, data_folder: Path | None) -> None:
    """Migrate the database, which is embedded in ``data_folder`` unless that is None."""
    try:
        administration.run_migration(database_url, "expand")
    except SchemaDiffers as error:
        if data_folder is None:
            raise
        raise StartupError(
            f"The data folder {data_folder} was written by another version of the server, with another schema; "
            "delete it or choose another one with --data-dir."
        ) from error


def _with_stores(environ: Mapping[str, str], services: EmbeddedServices) -> dict[str, str]:
    """The environment of the roles: it names both stores, and no ``*_FILE`` beside them that would contradict."""
    kept = {name: value for name, value in environ.items() if name not in ("DATABASE_URL_FILE", "REDIS_URL_FILE")}
    return kept | {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}


def _with_payloads(environ: dict[str, str], data_folder: Path | None) -> dict[str, str]:
    """Where data is kept, large payloads may be kept beside it."""
    if data_folder is None or environ.get(PAYLOAD_ROOT):
        return environ
    return environ | {PAYLOAD_ROOT: str((data_folder / "payloads").resolve())}


@contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Raise :class:`Stopped` in the main thread on the first signal; later ones do not disturb the clean-up."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    for each in STOP_SIGNALS:
        signal.signal(each, stop)
    yield


def _run_roles(roles: list[Process], services: EmbeddedServices, data_folder: Path | None) -> None:
    children: list[tuple[Process, Child]] = []
    try:
        for role in roles:
            children.append((role, _start(role)))
        for role, child in children:
            _wait_until_ready(role, child)
        print(_greeting(roles, data_folder), flush=True)
        while True:
            time.sleep(WATCH_SECONDS)
            _check_running(children, services)
    finally:
        for _, child in children:
            child.begin_stop()
        for _, child in children:
            child.stop()


def _start(role: Process) -> Child:
    command = [sys.executable, "-m", "dw_standalone.cli", role.command]
    options = ["--host", role.host, "--port", str(role.port), "--processes", str(role.processes)]
    return Child(
        [*command, *options],
        stop_signal=signal.SIGTERM,
        log=None,
        environ=role.environ,
        folder=Path.cwd(),
        stop_seconds=ROLE_STOP_SECONDS,
    )


def _wait_until_ready(role: Process, child: Child) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(role):
        if child.exit_code() is not None:
            raise StartupError(f"The {role.command} process did not start.")
        if time.monotonic() > deadline:
            raise StartupError(f"The {role.command} process was not ready within {READY_SECONDS} seconds.")
        time.sleep(PAUSE_SECONDS)


def _is_ready(role: Process) -> bool:
    host = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(role.host, role.host)
    connection = http.client.HTTPConnection(host, role.port, timeout=5)
    try:
        connection.request("GET", "/api/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _check_running(children: list[tuple[Process, Child]], services: EmbeddedServices) -> None:
    for role, child in children:
        if child.exit_code() is not None:
            raise StartupError(f"The {role.command} process ended by itself with code {child.exit_code()}.")
    if name := services.ended():
        raise StartupError(f"The embedded {name} ended by itself.")


def _greeting(roles: list[Process], data_folder: Path | None) -> str:
    first = roles[0]
    token = first.environ.get("DW_AUTH_TOKEN", "(as configured)")
    shown = token if token == TOKEN else "(as configured)"
    rows = [("URL", first.url), *((role.label.capitalize(), role.url) for role in roles[1:]), ("Token", shown)]
    if data_folder is not None:
        rows.append(("Data", str(data_folder)))
    block = [f"  {name:<13} {value}" for name, value in rows]
    return "\n".join(
        [
            "",
            f"Durable Workflow {version('dw-standalone')} is running; Ctrl-C stops it.",
            *block,
            "  Try this",
            f"    curl {first.url}/api/health",
            f"    {_greeter_environment(roles)}{_interpreter()} examples/greeter.py",
            f"    curl -H 'Authorization: Bearer {shown}' -H 'X-Durable-Workflow-Control-Plane-Version: 2' "
            f"{first.url}/api/workflows",
            "",
        ]
    )


def _greeter_environment(roles: list[Process]) -> str:
    """The variables without which the example would look for the server elsewhere, as one types them."""
    first, second = roles[:2]
    variables = []
    if first.url != f"http://{DEFAULT_HOST}:{DEFAULT_PORT}":
        variables.append(f"DURABLE_WORKFLOW_SERVER_URL={first.url} ")
    if second.label == "worker plane":
        variables.append(f"DURABLE_WORKFLOW_WORKER_URL={second.url} ")
    return "".join(variables)


def _interpreter() -> str:
    """The running Python as one would type it in the working folder."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
