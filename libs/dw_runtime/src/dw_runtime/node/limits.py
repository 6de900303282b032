"""From settings to the limits of the core and the options it publishes."""

from __future__ import annotations

from typing import Literal

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.limits import Limits
from dw_core.protocol.capabilities import CapabilityOptions
from dw_core.topology.manifest import DiscoveryLimits
from dw_core.workers.admission import AdmissionRules, QueueLimits, parse_overrides
from dw_runtime.auth.keys import check_url
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.auth.tokens import ClaimRules
from dw_runtime.http.admission import RequestLimits
from dw_runtime.http.shell import ShellSettings
from dw_runtime.settings import Settings, SettingsError
from dw_runtime.settings.identity import Auth
from dw_runtime.settings.named_tokens import read_named_tokens


def core_limits(settings: Settings) -> Limits:
    """The limits that are enforced and published."""
    request, structural, budget = settings.request_limits, settings.structural_limits, settings.history_budget
    return Limits(
        max_payload_bytes=request.payload_bytes_max,
        max_memo_bytes=request.memo_bytes_max,
        max_search_attributes=request.search_attributes_max,
        max_search_attribute_key_length=request.search_attribute_key_length_max,
        max_search_attribute_value_bytes=request.search_attribute_value_bytes_max,
        max_operation_name_length=request.operation_name_length_max,
        max_pending_activities=request.pending_activities_max,
        max_pending_children=request.pending_children_max,
        pending_activity_count=structural.pending_activities,
        pending_child_count=structural.pending_children,
        pending_timer_count=structural.pending_timers,
        pending_signal_count=structural.pending_signals,
        pending_update_count=structural.pending_updates,
        command_batch_size=structural.command_batch_size,
        payload_size_bytes=structural.payload_bytes,
        memo_size_bytes=structural.memo_bytes,
        search_attribute_size_bytes=structural.search_attribute_bytes,
        history_transaction_size=structural.history_transaction_events,
        warning_threshold_percent=structural.warning_percent,
        continue_as_new_events=budget.events,
        continue_as_new_size_bytes=budget.size_bytes,
        continue_as_new_fan_out=budget.fan_out,
        history_warning_events=budget.events_warning,
        history_warning_size_bytes=budget.size_bytes_warning,
        history_warning_fan_out=budget.fan_out_warning,
        history_events_max=budget.events_max,
        external_payload_max_bytes=settings.external_payloads.bytes_max,
        external_payload_expiry_seconds=settings.external_payloads.upload_expiry_seconds,
    )


def admission_rules(settings: Settings) -> AdmissionRules:
    """The caps on leases and dispatches of every queue."""
    caps = settings.admission
    return AdmissionRules(
        defaults={
            TaskKind.WORKFLOW: QueueLimits(
                queue_leases_max=caps.workflow_leases_per_queue,
                namespace_leases_max=caps.workflow_leases_per_namespace,
                queue_dispatches_max=caps.workflow_dispatches_per_minute,
                namespace_dispatches_max=caps.workflow_dispatches_per_minute_per_namespace,
            ),
            TaskKind.ACTIVITY: QueueLimits(
                queue_leases_max=caps.activity_leases_per_queue,
                namespace_leases_max=caps.activity_leases_per_namespace,
                queue_dispatches_max=caps.activity_dispatches_per_minute,
                namespace_dispatches_max=caps.activity_dispatches_per_minute_per_namespace,
            ),
        },
        overrides={} if caps.overrides is None else parse_overrides(caps.overrides),
    )


def capability_options(settings: Settings, limits: Limits) -> CapabilityOptions:
    """The settings that show in ``server_capabilities``."""
    return CapabilityOptions(
        long_poll_seconds=settings.polling.poll_timeout_seconds,
        history_page_size_default=settings.protocol.history_page_size_default,
        history_page_size_max=settings.protocol.history_page_size_max,
        heartbeat_interval_seconds=settings.workers.heartbeat_interval_seconds,
        stale_after_seconds=settings.workers.stale_after_seconds,
        query_timeout_seconds=settings.leases.query_timeout_seconds,
        query_lease_seconds=settings.leases.query_lease_seconds,
        compression=settings.protocol.compression_enabled,
        sticky_execution=settings.fleet.sticky_execution_enabled,
        limits=limits,
    )


def discovery_limits(settings: Settings) -> DiscoveryLimits:
    """The effective numbers of ``matching_role.discovery_limits``."""
    return DiscoveryLimits(
        workflow_task_lease_seconds=settings.leases.workflow_task_lease_seconds,
        activity_task_lease_seconds=settings.leases.activity_task_lease_seconds,
        wake_signal_ttl_seconds=max(settings.polling.wake_signal_ttl_seconds, 60),
    )


def shell_settings(settings: Settings, limits: Limits) -> ShellSettings:
    """What the shell itself bounds and decides, before any handler."""
    return ShellSettings(
        default_namespace=settings.topology.default_namespace,
        max_body_bytes=limits.max_payload_bytes,
        payload_bytes_max=limits.external_payload_max_bytes,
        compression_enabled=settings.protocol.compression_enabled,
        request_limits=RequestLimits(
            per_minute=settings.admission.namespace_requests_per_minute,
            at_a_time=settings.admission.namespace_requests_at_a_time,
        ),
        trusts_forwarded=settings.auth.trust_forwarded_attribution_headers,
    )


def auth_settings(settings: Settings) -> AuthSettings:
    """The secrets of the authenticator; unset ones are empty."""
    auth = settings.auth
    return AuthSettings(
        driver=auth.driver,
        token=auth.token or "",
        worker_token=auth.worker_token or "",
        operator_token=auth.operator_token or "",
        admin_token=auth.admin_token or "",
        signature_key=auth.signature_key or "",
        worker_signature_key=auth.worker_signature_key or "",
        operator_signature_key=auth.operator_signature_key or "",
        admin_signature_key=auth.admin_signature_key or "",
        backward_compatible=auth.backward_compatible,
        named=() if auth.principal_tokens is None else read_named_tokens(auth.principal_tokens),
    )


def claim_rules(auth: Auth) -> ClaimRules:
    """How tokens of the driver ``jwt`` are judged; raises ``SettingsError`` for what cannot work."""
    if not auth.jwt_issuer or not auth.jwt_audience:
        raise SettingsError("DW_AUTH_DRIVER=jwt needs DW_JWT_ISSUER and DW_JWT_AUDIENCE.")
    name, url = ("DW_JWT_JWKS_URL", auth.jwt_jwks_url) if auth.jwt_jwks_url else ("DW_JWT_ISSUER", auth.jwt_issuer)
    complaint = check_url(url)
    if complaint is not None:
        raise SettingsError(f"{name} {complaint}.")
    try:
        role_map = msgspec.json.decode(
            auth.jwt_role_map or "{}", type=dict[str, Literal["worker", "operator", "admin"]]
        )
    except msgspec.MsgspecError:
        raise SettingsError(
            "DW_JWT_ROLE_MAP must be a JSON object whose values are worker, operator or admin."
        ) from None
    return ClaimRules(
        issuer=auth.jwt_issuer,
        audience=auth.jwt_audience,
        role_claim=auth.jwt_role_claim,
        role_map=role_map,
        namespace_claim=auth.jwt_namespace_claim,
        leeway_seconds=auth.jwt_leeway_seconds,
    )
