"""Settings of a process and of who may call it: topology, HTTP, stores, identity of callers, logs and metrics."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dw_runtime.settings.variable import Var


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Who this process is in the deployment (topology §1.2, §6.4)."""

    server_id: Annotated[
        str, Var("DW_SERVER_ID", "Name of this process in logs and lease rows.", derived="the host name")
    ]
    shape: Annotated[
        str | None,
        Var("DW_SERVER_TOPOLOGY_SHAPE", "Topology shape of the release.", derived="the shape of the role started"),
    ] = None
    process_class: Annotated[
        str | None,
        Var("DW_SERVER_PROCESS_CLASS", "Process class of this process.", derived="the class of the role started"),
    ] = None
    mode: Annotated[
        str, Var("DW_MODE", "Execution mode published in the manifest.", choices=("service", "embedded"))
    ] = "service"
    default_namespace: Annotated[str, Var("DW_DEFAULT_NAMESPACE", "Namespace of requests that name none.")] = "default"
    matching_queue_wake: Annotated[
        bool,
        Var("DW_V2_MATCHING_ROLE_QUEUE_WAKE", "Whether processes other than matching run the wake pass themselves."),
    ] = True
    task_dispatch_mode: Annotated[
        str,
        Var(
            "DW_TASK_DISPATCH_MODE",
            "How tasks reach workers.",
            choices=("poll", "queue"),
            also=("DW_V2_TASK_DISPATCH_MODE",),
        ),
    ] = "poll"


class Http(msgspec.Struct, frozen=True, kw_only=True):
    """Where a role listens and how it stops."""

    host: Annotated[str, Var("DW_HTTP_HOST", "Address to listen on.")] = "0.0.0.0"
    port: Annotated[int, Var("DW_HTTP_PORT", "Port to listen on.", minimum=0, maximum=65535)] = 8080
    processes: Annotated[int, Var("DW_PROCESSES", "Worker processes sharing the port.", minimum=1, maximum=256)] = 1
    drain_seconds: Annotated[
        int,
        Var(
            "DW_DRAIN_SECONDS",
            "How long a stopping process waits for requests and commits that have begun.",
            "seconds",
            minimum=1,
            maximum=600,
        ),
    ] = 15


class Stores(msgspec.Struct, frozen=True, kw_only=True):
    """Postgres and Redis (topology §6.4, infrastructure)."""

    database_url: Annotated[
        str | None,
        Var(
            "DATABASE_URL",
            "Postgres as a URL.",
            is_secret=True,
            also=("DB_URL",),
            derived="DB_HOST, DB_PORT, DB_DATABASE, DB_USERNAME and DB_PASSWORD when DB_HOST is set",
        ),
    ] = None
    database_pool_size: Annotated[
        int, Var("DW_DB_POOL_SIZE", "Postgres connections per worker process.", minimum=2, maximum=200)
    ] = 8
    redis_url: Annotated[
        str | None,
        Var(
            "REDIS_URL",
            "Redis or Valkey as a URL; unset means no wake signals between processes.",
            is_secret=True,
            derived="REDIS_HOST, REDIS_PORT, REDIS_DB, REDIS_USERNAME, REDIS_PASSWORD and REDIS_SCHEME when REDIS_HOST "
            "is set",
        ),
    ] = None


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """How callers prove who they are (topology §6.4, auth)."""

    driver: Annotated[
        str, Var("DW_AUTH_DRIVER", "How callers authenticate.", choices=("none", "token", "signature", "jwt"))
    ] = "token"
    token: Annotated[str | None, Var("DW_AUTH_TOKEN", "Token accepted for every role.", is_secret=True)] = None
    worker_token: Annotated[str | None, Var("DW_WORKER_TOKEN", "Token of workers.", is_secret=True)] = None
    operator_token: Annotated[str | None, Var("DW_OPERATOR_TOKEN", "Token of operators.", is_secret=True)] = None
    admin_token: Annotated[str | None, Var("DW_ADMIN_TOKEN", "Token of administrators.", is_secret=True)] = None
    signature_key: Annotated[
        str | None, Var("DW_SIGNATURE_KEY", "Signature key accepted for every role.", is_secret=True)
    ] = None
    worker_signature_key: Annotated[
        str | None, Var("DW_WORKER_SIGNATURE_KEY", "Signature key of workers.", is_secret=True)
    ] = None
    operator_signature_key: Annotated[
        str | None, Var("DW_OPERATOR_SIGNATURE_KEY", "Signature key of operators.", is_secret=True)
    ] = None
    admin_signature_key: Annotated[
        str | None, Var("DW_ADMIN_SIGNATURE_KEY", "Signature key of administrators.", is_secret=True)
    ] = None
    principal_tokens: Annotated[
        str | None, Var("DW_PRINCIPAL_TOKENS", "Tokens of named principals, as a JSON array.", is_secret=True)
    ] = None
    backward_compatible: Annotated[
        bool,
        Var("DW_AUTH_BACKWARD_COMPATIBLE", "Whether the single token still opens every role when role tokens are set."),
    ] = True
    jwt_issuer: Annotated[str | None, Var("DW_JWT_ISSUER", "Issuer of the tokens that the driver jwt accepts.")] = None
    jwt_audience: Annotated[str | None, Var("DW_JWT_AUDIENCE", "Audience that such a token must name.")] = None
    jwt_jwks_url: Annotated[
        str | None,
        Var(
            "DW_JWT_JWKS_URL",
            "Where the keys of the issuer are; https, but on this machine.",
            derived="the discovery document of the issuer",
        ),
    ] = None
    jwt_role_claim: Annotated[str, Var("DW_JWT_ROLE_CLAIM", "Claim that holds the roles; dots lead into objects.")] = (
        "roles"
    )
    jwt_role_map: Annotated[
        str | None,
        Var(
            "DW_JWT_ROLE_MAP",
            "Roles by the values of that claim, as a JSON object; worker, operator and admin need none.",
        ),
    ] = None
    jwt_namespace_claim: Annotated[
        str | None,
        Var("DW_JWT_NAMESPACE_CLAIM", "Claim that holds the namespaces that are open to the bearer, * for all."),
    ] = None
    jwt_leeway_seconds: Annotated[
        int,
        Var("DW_JWT_LEEWAY_SECONDS", "How far the clock of the issuer may differ.", "seconds", minimum=0, maximum=300),
    ] = 30
    trust_forwarded_attribution_headers: Annotated[
        bool, Var("DW_TRUST_FORWARDED_ATTRIBUTION_HEADERS", "Whether attribution headers of a gateway are believed.")
    ] = False


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Logs, metrics and the audit of the environment."""

    log_level: Annotated[
        str, Var("DW_LOG_LEVEL", "Least severe log line written.", choices=("debug", "info", "warning", "error"))
    ] = "info"
    task_failure_type_limit: Annotated[
        int,
        Var(
            "DW_METRICS_WORKFLOW_TASK_FAILURE_TYPE_LIMIT",
            "Workflow types listed by the metric of repeated task failures.",
            minimum=1,
            maximum=100,
        ),
    ] = 20
    task_queue_series_limit: Annotated[
        int,
        Var(
            "DW_METRICS_PROMETHEUS_TASK_QUEUE_SERIES_LIMIT",
            "Series per family labelled by task queue.",
            minimum=0,
            maximum=10_000,
        ),
    ] = 100
    tracing_enabled: Annotated[
        bool,
        Var("DW_TRACING_ENABLED", "Whether spans are sent by OTLP/HTTP; the OTEL_* variables say where and how many."),
    ] = False
    env_audit_strict: Annotated[
        bool, Var("DW_ENV_AUDIT_STRICT", "Whether an unknown DW_* name stops the process at boot.")
    ] = False


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """How patiently the bootstrap command waits for the database."""

    retries: Annotated[int, Var("DW_BOOTSTRAP_RETRIES", "Attempts to reach the database.", minimum=1)] = 30
    delay_seconds: Annotated[
        int, Var("DW_BOOTSTRAP_DELAY_SECONDS", "Pause between those attempts.", "seconds", minimum=0)
    ] = 2
