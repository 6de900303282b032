"""Caps of queues (topology §5.8)."""

from __future__ import annotations

import pytest

from dw_core.engine.rows import TaskKind
from dw_core.workers.admission import AdmissionRules, QueueLimits, parse_overrides

WORKFLOW, ACTIVITY = TaskKind.WORKFLOW, TaskKind.ACTIVITY


def test_a_queue_without_caps_has_no_limits() -> None:
    rules = AdmissionRules({ACTIVITY: QueueLimits(queue_leases_max=3)})
    assert rules.limits("n", WORKFLOW, "q") is None
    assert rules.limits("n", TaskKind.QUERY, "q") is None
    assert rules.limits("n", ACTIVITY, "q") == QueueLimits(queue_leases_max=3)


def test_the_most_specific_override_wins_and_null_lifts_a_cap() -> None:
    overrides = parse_overrides(
        '{"*": {"activity_tasks": {"max_active_leases": 1}}, "q": {"activity_tasks": {"max_active_leases": 2}},'
        ' "n:*": {"activity_tasks": {"max_active_leases": 3}},'
        ' "n:q": {"activity_tasks": {"max_active_leases_per_queue": 4, "max_dispatches_per_minute": null},'
        '         "workflow_tasks": {}}}'
    )
    rules = AdmissionRules({ACTIVITY: QueueLimits(queue_dispatches_max=60, namespace_leases_max=9)}, overrides)
    found = [rules.limits(*key) for key in (("x", ACTIVITY, "x"), ("x", ACTIVITY, "q"), ("n", ACTIVITY, "x"))]
    assert [limits and limits.queue_leases_max for limits in found] == [1, 2, 3]
    assert [limits and limits.queue_dispatches_max for limits in found] == [60, 60, 60]
    assert rules.limits("n", ACTIVITY, "q") == QueueLimits(queue_leases_max=4, namespace_leases_max=9)
    assert rules.limits("n", WORKFLOW, "q") is None


def test_a_budget_group_is_a_scope_of_its_own() -> None:
    text = '{"q": {"activity_tasks": {"budget_group": "g", "max_dispatches_per_minute_per_budget_group": 5}}}'
    limits = AdmissionRules({}, parse_overrides(text)).limits("n", ACTIVITY, "q")
    assert limits is not None
    assert limits.budgets("q") == {"group:g": 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"q": 1}', "no object under 'q'"),
        ('{"q": {"tasks": {}}}', "unknown section 'tasks' under 'q'"),
        ('{"q": {"activity_tasks": 1}}', "no object under 'activity_tasks' of 'q'"),
        ('{"q": {"activity_tasks": {"leases": 1}}}', "unknown cap 'leases' under 'q'"),
        ('{"q": {"activity_tasks": {"max_active_leases": 0}}}', "a positive number for 'max_active_leases' under 'q'"),
        ('{"q": {"activity_tasks": {"max_active_leases": true}}}', "a positive number"),
        ('{"q": {"activity_tasks": {"budget_group": ""}}}', "a name for 'budget_group'"),
    ],
)
def test_a_mistake_in_the_overrides_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_overrides(text)
