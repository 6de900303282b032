"""Store addresses: from the ``DB_*`` and ``REDIS_*`` parts to URLs, and from a URL to what may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from redis.connection import parse_url

from dw_runtime.settings.variable import SettingsError

_DATABASE_TLS = ("DB_SSLMODE", "DB_SSLROOTCERT", "DB_SSLCERT", "DB_SSLKEY")
_REDIS_TLS = {
    "REDIS_SSLROOTCERT": "ssl_ca_certs",
    "REDIS_SSLCERT": "ssl_certfile",
    "REDIS_SSLKEY": "ssl_keyfile",
}
"""Parameters of a connection by their variables."""


def database_url_from_parts(parts: Mapping[str, str]) -> str | None:
    """Build a Postgres URL from ``DB_HOST`` and its companions; None when no host is named."""
    host = parts.get("DB_HOST")
    if not host:
        return None
    address = f"{_credentials(parts.get('DB_USERNAME'), parts.get('DB_PASSWORD'))}{_host(host)}"
    port = _port("DB_PORT", parts.get("DB_PORT") or "5432")
    database = quote(parts.get("DB_DATABASE") or "durable_workflow", safe="")
    return urlunsplit(("postgresql", f"{address}:{port}", f"/{database}", "", ""))


def with_database_tls(url: str, parts: Mapping[str, str]) -> str:
    """The URL with the TLS parameters that the parts give and that it does not name itself."""
    return _with_query(
        url, {name.lower().removeprefix("db_"): parts[name] for name in _DATABASE_TLS if parts.get(name)}
    )


def with_redis_tls(url: str, parts: Mapping[str, str]) -> str:
    """Like :func:`with_database_tls`; files mean nothing to a connection without TLS."""
    if not url.startswith("rediss://"):
        return url
    return _with_query(url, {query: parts[name] for name, query in _REDIS_TLS.items() if parts.get(name)})


def _with_query(url: str, wanted: Mapping[str, str]) -> str:
    named = {name for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)}
    added = urlencode({name: value for name, value in wanted.items() if name not in named}, safe="/", quote_via=quote)
    if not added:
        return url
    return f"{url}{'&' if '?' in url else '?'}{added}"


def redis_url_from_parts(parts: Mapping[str, str]) -> str | None:
    """Build a Redis URL from ``REDIS_HOST`` and its companions; None when no host is named."""
    host = parts.get("REDIS_HOST")
    if not host:
        return None
    scheme = "rediss" if parts.get("REDIS_SCHEME") in ("tls", "rediss") else "redis"
    address = f"{_credentials(parts.get('REDIS_USERNAME'), parts.get('REDIS_PASSWORD'))}{_host(host)}"
    port = _port("REDIS_PORT", parts.get("REDIS_PORT") or "6379")
    return urlunsplit((scheme, f"{address}:{port}", f"/{parts.get('REDIS_DB') or '0'}", "", ""))


def normal_database_url(url: str) -> str:
    """Spell the scheme of a Postgres URL as libpq knows it.

    Raises :class:`SettingsError` for another database and for a URL that libpq would not understand. The message never
    quotes the URL: libraries that fail on it later quote the part they fail on, which may be the password.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("postgresql", "postgres", "pgsql"):
        raise SettingsError("The database URL must begin with postgresql://.")
    url = f"postgresql://{rest}"
    try:
        ports = str(conninfo_to_dict(url).get("port") or "").split(",")
    except psycopg.ProgrammingError:
        raise _unreadable("database") from None
    if not all(port == "" or _is_port(port) for port in ports) or "@" in urlsplit(url).path:
        raise _unreadable("database")
    return url


def checked_redis_url(url: str) -> str:
    """The URL as it is; raises :class:`SettingsError` like :func:`normal_database_url`."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise SettingsError("The Redis URL must begin with redis://, rediss:// or unix://.")
    try:
        parse_url(url)  # type: ignore[no-untyped-call]  # redis ships it untyped
    except ValueError:
        raise _unreadable("Redis") from None
    if "@" in urlsplit(url).path and not url.startswith("unix://"):
        raise _unreadable("Redis")
    return url


def _unreadable(store: str) -> SettingsError:
    return SettingsError(
        f"The {store} URL cannot be read; special characters of its user name and password must be percent-encoded."
    )


def without_password(url: str) -> str:
    """The URL with its password replaced by asterisks and without its query, fit for logs."""
    scheme, _, rest = url.partition("://")
    credentials, separator, address = rest.rpartition("@")
    user = credentials.partition(":")[0]
    shown = f"{user}:***@" if ":" in credentials else f"{user}{separator}"
    return f"{scheme}://{shown}{address.partition('?')[0]}"


def _credentials(user: str | None, password: str | None) -> str:
    if not user and not password:
        return ""
    secret = f":{quote(password, safe='')}" if password else ""
    return f"{quote(user or '', safe='')}{secret}@"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _port(name: str, text: str) -> int:
    if not _is_port(text):
        raise SettingsError(f"{name} must be a port number.")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= 65535
