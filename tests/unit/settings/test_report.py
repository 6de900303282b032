"""The configuration and the registry as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from dw_runtime import settings
from dw_runtime.settings import load_audited
from dw_runtime.settings.model import REGISTRY
from dw_runtime.settings.report import effective
from dw_runtime.settings.urls import without_password

ROOT = Path(__file__).parents[3]
SETTINGS = Path(settings.__file__).parent


def test_no_two_fields_declare_one_name() -> None:
    names = [name for declared in REGISTRY for name in (declared.var.name, *declared.var.also)]
    assert len(names) == len(set(names))


def test_no_secret_is_shown() -> None:
    secret = "s3cr3t-value"
    environ = {declared.var.name: secret for declared in REGISTRY if declared.var.is_secret}
    environ |= {
        "DATABASE_URL": f"postgresql://u:{secret}@h/d?password={secret}",
        "REDIS_URL": f"redis://:{secret}@h",
        "DW_PRINCIPAL_TOKENS": f'[{{"token": "{secret}-of-16-chars", "subject": "s", "roles": ["admin"]}}]',
    }
    shown = effective(load_audited(environ))
    assert secret not in shown
    assert "DATABASE_URL=postgresql://u:***@h/d" in shown
    assert "DW_AUTH_TOKEN=(set, not shown)" in shown


def test_the_effective_configuration_says_where_a_value_came_from() -> None:
    shown = effective(load_audited({"DW_HTTP_PORT": "9000", "WORKFLOW_SERVER_MODE": "embedded"})).splitlines()
    assert "DW_HTTP_PORT=9000" in shown
    assert "DW_MODE=embedded  (WORKFLOW_SERVER_MODE)" in shown
    assert "DW_PROCESSES=1  (default)" in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://user@h/0", "redis://user@h/0"),
        ("redis://:p@h/0", "redis://:***@h/0"),
        ("postgresql://u:p@[::1]:5/d?sslmode=require", "postgresql://u:***@[::1]:5/d"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_every_setting_is_read_by_some_code() -> None:
    """A setting without effect is worse than none; one that only others know belongs to ``IGNORED``."""
    sources = [
        path.read_text(encoding="utf-8")
        for part in ("libs", "services")
        for path in (ROOT / part).rglob("*.py")
        if path.parts[-2:-1] != ("settings",)
    ]
    code = "\n".join([*sources, (SETTINGS / "load.py").read_text(encoding="utf-8")])
    unread = [declared.var.name for declared in REGISTRY if f".{declared.field}" not in code]
    assert unread == ["DW_WORKER_PROTOCOL_VERSION"], "that one only refuses other values"
