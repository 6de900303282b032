"""``dw-server``: one executable for every role, for development and for administration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from dw_runtime.process import EXIT_CONFIG, EXIT_FAILURE, StartupError
from dw_runtime.settings import SettingsError
from dw_standalone import administration, development
from dw_standalone.roles import ROLES, read_settings, run_role
from dw_standalone.smoke import smoke

DEFAULT_DATA_FOLDER = ".dw"
PORT_MAX = 65535
DEV_PORT_MAX = PORT_MAX - 2  # the scheduler listens two above it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0, 78 for an illegal configuration, 2 for wrong usage, 1 otherwise."""
    options = _parser().parse_args(arguments)
    try:
        return _dispatch(options)
    except SettingsError as error:
        return _refuse(error, EXIT_CONFIG)
    except StartupError as error:
        return _refuse(error, EXIT_FAILURE)


def _refuse(error: Exception, code: int) -> int:
    print(f"dw-server: {error}", file=sys.stderr, flush=True)
    return code


def _dispatch(options: argparse.Namespace) -> int:
    command: str = options.command
    if command in ROLES:
        return run_role(ROLES[command], os.environ, options.host, options.port, options.processes)
    match command:
        case "dev":
            data_folder = None if options.ephemeral else Path(options.data_dir)
            return development.run(
                os.environ, data_folder, options.host, options.port, options.processes or 1, options.split
            )
        case "migrate":
            return administration.migrate(os.environ, options.step)
        case "bootstrap":
            return administration.bootstrap(os.environ)
        case "check-config":
            return administration.check_config(os.environ, ROLES[options.role] if options.role else None)
        case "smoke":
            worker_url = options.worker_url or options.url
            print(smoke(read_settings(os.environ), options.url, worker_url, options.token_file).sentence())
            return 0
    print(version("dw-standalone"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dw-server",
        description="The Durable Workflow server.",
        epilog="All other settings are environment variables; `dw-server check-config` shows them.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, role in ROLES.items():
        options = _add(commands, name, role.summary)
        options.add_argument("--host", help="address to listen on (default: DW_HTTP_HOST or 0.0.0.0)")
        options.add_argument(
            "--port", type=_port(0, PORT_MAX), help="port to listen on (default: DW_HTTP_PORT or 8080)"
        )
        options.add_argument(
            "--processes", type=int, help="worker processes sharing the port (default: DW_PROCESSES or 1)"
        )
    _add_dev(commands)
    migrate = _add(commands, "migrate", "Change the database schema, or show where it stands.")
    migrate.add_argument(
        "step",
        choices=("expand", "contract", "status"),
        help="expand: before new code runs; contract: after old code is gone; status: change nothing",
    )
    _add(commands, "bootstrap", "Expand the schema and create the default namespace; running it again changes nothing.")
    check = _add(
        commands, "check-config", "Print the effective configuration without secrets; refuse unknown DW_* names."
    )
    check.add_argument("role", nargs="?", choices=tuple(ROLES), help="also say what would keep this role from starting")
    _add_smoke(commands)
    _add(commands, "version", "Print the version.")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, description=summary)


def _port(lowest: int, highest: int) -> Callable[[str], int]:
    """What reads a port of an argument and refuses one outside the range."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and lowest <= int(text) <= highest:
            return int(text)
        raise argparse.ArgumentTypeError(f"must be a number from {lowest} to {highest}, not {text!r}")

    return read


def _add_smoke(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    smoke_options = _add(commands, "smoke", "Run one workflow through a running deployment and print its latency.")
    smoke_options.add_argument("--url", required=True, help="address of the server, or of its control plane")
    smoke_options.add_argument("--worker-url", help="address of the worker plane (default: that of --url)")
    smoke_options.add_argument(
        "--token-file", metavar="FILE", help="file with the token to call with (default: the tokens of the settings)"
    )


def _add_dev(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dev = _add(commands, "dev", "Run everything on this machine, with embedded Postgres and Valkey.")
    dev.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    dev.add_argument(
        "--port",
        type=_port(1, DEV_PORT_MAX),
        help="port to listen on (default: 8080); the scheduler takes the one two above it, and with --split the "
        "worker plane the one between",
    )
    dev.add_argument("--processes", type=int, help="worker processes sharing the port (default: 1)")
    data = dev.add_mutually_exclusive_group()
    data.add_argument(
        "--data-dir",
        default=DEFAULT_DATA_FOLDER,
        metavar="FOLDER",
        help=f"where the embedded database lives (default: {DEFAULT_DATA_FOLDER} in the working folder)",
    )
    data.add_argument("--ephemeral", action="store_true", help="keep no data; use a temporary folder")
    dev.add_argument("--split", action="store_true", help="run the three roles as separate processes")


if __name__ == "__main__":
    sys.exit(main())
