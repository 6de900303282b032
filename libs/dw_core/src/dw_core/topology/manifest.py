"""The version 4 topology manifest of a node, and the summary that health and readiness carry (topology §1.4, §2)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.topology.roles import (
    AUTHORITY_BOUNDARIES,
    AUTHORITY_SURFACES,
    EXECUTION_MODES,
    FAILURE_DOMAINS,
    PROCESS_CLASSES,
    ROLE_FACTS,
    Role,
    Shape,
)

SCHEMA = "durable-workflow.v2.role-topology"
VERSION = 4
SUMMARY_KEYS = (
    "schema",
    "version",
    "current_shape",
    "current_process_class",
    "current_roles",
    "execution_mode",
    "matching_role",
)

MIGRATION_PATH = (
    ("audit_role_boundaries", "every write is known to belong to one role before a process moves"),
    ("expose_role_bindings", "a role can be replaced behind one binding of the core library"),
    ("introduce_dedicated_matching_shape", "sweeps for ready work may run on their own; claiming does not change"),
    ("split_history_projection", "projections may run apart, history keeps a single writer"),
    ("split_scheduler", "schedules may fire from their own process, guarded by leases"),
    ("optional_execution_partitioning", "workers may be partitioned by namespace, connection, queue and build"),
)
KERNEL_INVARIANTS = (
    ("single_persistence_engine", "one workflow database serves every shape"),
    ("single_worker_protocol", "workers speak one HTTP protocol to every shape"),
    ("single_history_writer", "each history event is written durably by one writer"),
    ("single_control_authority_per_run", "a run changes only under its own row lock, through one authority"),
    ("embedded_topology_remains_supported", "all roles in one process remain a legal placement"),
    ("role_split_is_topology_only", "a split moves roles between processes, nothing else, and is reversible"),
)


class DiscoveryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of ``matching_role.discovery_limits``: the effective ones, in the units of their names."""

    poll_batch_cap: int = 100
    availability_ceiling_seconds: int = 1
    wake_signal_ttl_seconds: int = 60
    workflow_task_lease_seconds: int = 300
    activity_task_lease_seconds: int = 300


def manifest(shape: Shape, process_class: str, *, queue_wake: bool, limits: DiscoveryLimits) -> dict[str, Any]:
    """The manifest of a node, ready for JSON.

    ``process_class`` is one of ``PROCESS_CLASSES[shape]`` (else ``KeyError``); ``queue_wake`` says whether the broad
    sweep runs inside the serving processes.
    """
    current = PROCESS_CLASSES[shape][process_class]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "supported_shapes": _names(Shape),
        "role_vocabulary": _names(Role),
        "current_shape": shape.value,
        "current_process_class": process_class,
        "current_roles": _names(current),
        "execution_mode": EXECUTION_MODES[shape],
        "matching_role": matching_role(queue_wake=queue_wake, limits=limits),
        "role_catalog": {role.value: _catalogue_entry(role, role in current) for role in Role},
        "shape_assignments": {
            each.value: {"process_classes": [{"name": name, "roles": _names(roles)} for name, roles in classes.items()]}
            for each, classes in PROCESS_CLASSES.items()
        },
        "authority_boundaries": {role.value: {"writes": list(writes)} for role, writes in AUTHORITY_BOUNDARIES.items()},
        "authority_surfaces": _authority_surfaces(),
        "failure_domains": {
            name: {"effect": effect, "operator_signal": signal} for name, (effect, signal) in FAILURE_DOMAINS.items()
        },
        "scaling_boundaries": {role.value: facts.scales_with for role, facts in ROLE_FACTS.items()},
        "supported_topologies": {
            each.value: {
                "execution_mode": EXECUTION_MODES[each],
                "process_classes": {name: {"roles": _names(roles)} for name, roles in classes.items()},
            }
            for each, classes in PROCESS_CLASSES.items()
        },
        "migration_path": [{"step": step, "result": result, "reversible": True} for step, result in MIGRATION_PATH],
        "kernel_invariants": [
            {"id": name, "summary": summary, "applies_to": _names(Shape)} for name, summary in KERNEL_INVARIANTS
        ],
    }


def summary(shape: Shape, process_class: str, *, queue_wake: bool, limits: DiscoveryLimits) -> dict[str, Any]:
    """The part of the manifest that ``/api/health`` and ``/api/ready`` carry; arguments as for :func:`manifest`."""
    whole = manifest(shape, process_class, queue_wake=queue_wake, limits=limits)
    return {key: whole[key] for key in SUMMARY_KEYS}


def matching_role(*, queue_wake: bool, limits: DiscoveryLimits) -> dict[str, Any]:
    """How this process takes part in matching (topology §2)."""
    return {
        "queue_wake_enabled": queue_wake,
        "shape": "in_worker" if queue_wake else "dedicated",
        "wake_owner": "worker_loop" if queue_wake else "dedicated_repair_pass",
        "task_dispatch_mode": "poll",
        "partition_primitives": ["connection", "queue", "compatibility", "namespace"],
        "backpressure_model": "lease_ownership",
        "discovery_limits": msgspec.to_builtins(limits),
    }


def _names(members: Any) -> list[str]:
    return [member.value for member in members]


def _catalogue_entry(role: Role, is_hosted: bool) -> dict[str, Any]:
    facts = ROLE_FACTS[role]
    return {
        "plane": facts.plane,
        "hosted_by_current_node": is_hosted,
        "runs_user_code": facts.runs_user_code,
        "accepts_external_http": facts.accepts_external_http,
        "steady_state_interface": facts.steady_state_interface,
    }


def _authority_surfaces() -> dict[str, Any]:
    surfaces: dict[str, Any] = {}
    for table, mutation, owners, readers in AUTHORITY_SURFACES:
        mutations = surfaces.setdefault(table, {"mutations": {}})["mutations"]
        mutations[mutation] = {"owning_roles": _names(owners), "read_roles": _names(readers)}
    return surfaces
