"""Compares what routes answer with what the OpenAPI document says of them.

With ``DW_TEST_COLLECT_ANSWERS`` naming a folder, what is missing is written there instead, for ``python -m
tests.harness.answers FOLDER``, which adds it to the tables.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from dw_core.openapi import refusals, successes
from dw_core.openapi.answers import reasons_of, statuses_of, successes_of
from dw_core.openapi.refusals import REFUSALS
from dw_core.openapi.successes import SUCCESSES
from dw_core.protocol.problems import Problem
from dw_core.protocol.reasons import REASONS
from dw_runtime.http.call import Reply
from dw_runtime.http.plan import HeaderPairs, Response, RoutePlan
from tests.harness.published import published

DIFFERENT = {"cluster_info": "the version of the worker protocol is a text, which the published client demands"}
"""Routes that answer otherwise than is published, and why."""
Undocumented = set[tuple[str, str]]


class AnswerWatch:
    """Notes each answer of a route in this process that its document does not know, while it is entered."""

    def __init__(self) -> None:
        self.undocumented: Undocumented = set()
        self._finish, self._refuse = RoutePlan.finish, RoutePlan.refuse

    def __enter__(self) -> None:
        finish, refuse, noted = self._finish, self._refuse, self.undocumented
        collecting = bool(os.environ.get("DW_TEST_COLLECT_ANSWERS"))

        def watched_finish(plan: RoutePlan, reply: Reply, params: Mapping[str, str]) -> Response:
            if collecting or reply.status not in successes_of(plan.route):
                noted.add((plan.route.name, str(reply.status)))
            response = finish(plan, reply, params)
            misfit = _misfit(plan, response)
            if misfit is not None:
                noted.add((plan.route.name, misfit))
            return response

        def watched_refuse(
            plan: RoutePlan, problem: Problem, params: Mapping[str, str] = {}, headers: HeaderPairs = ()
        ) -> Response:
            usual = problem.status == REASONS.get(problem.reason)
            answer = problem.reason if usual else f"{problem.reason}:{problem.status}"
            known = statuses_of(plan.route) if problem.reason not in REASONS else {}
            if answer not in reasons_of(plan.route) | {"not_implemented"} and problem.status not in known:
                noted.add((plan.route.name, answer))
            return refuse(plan, problem, params, headers)

        RoutePlan.finish, RoutePlan.refuse = watched_finish, watched_refuse  # type: ignore[method-assign, assignment]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        RoutePlan.finish, RoutePlan.refuse = self._finish, self._refuse  # type: ignore[method-assign]
        folder = os.environ.get("DW_TEST_COLLECT_ANSWERS")
        if folder and self.undocumented:
            with (Path(folder) / f"{os.getpid()}.jsonl").open("a") as file:
                file.writelines(json.dumps(pair) + "\n" for pair in sorted(self.undocumented))
            self.undocumented.clear()


def _misfit(plan: RoutePlan, response: Response) -> str | None:
    """How an answer differs from what is published about its route, where that is at hand."""
    status, body, _, media_type = response
    specs = published()
    if specs is None or plan.route.name in DIFFERENT or not media_type.startswith(b"application/json"):
        return None
    return specs.complaint(plan.route.method, plan.route.path, status, json.loads(body))


def main(folder: str) -> None:
    """Add what was collected in ``folder`` to the tables."""
    reasons = {name: set(known) for name, known in REFUSALS.items()}
    statuses = {name: set(known) for name, known in SUCCESSES.items()}
    for path in Path(folder).glob("*.jsonl"):
        for line in path.read_text().splitlines():
            route, answer = json.loads(line)
            if answer.isdigit():
                statuses.setdefault(route, set()).add(int(answer))
            elif answer.partition(":")[0] in REASONS:
                reasons.setdefault(route, set()).add(answer)
    _write(Path(refusals.__file__), "REFUSALS: dict[str, tuple[str, ...]] = ", reasons)
    special = {name: known for name, known in statuses.items() if known != {200}}
    _write(Path(successes.__file__), "SUCCESSES: dict[str, tuple[int, ...]] = ", special)


def _write(path: Path, head: str, table: Mapping[str, set[str] | set[int]]) -> None:
    text = path.read_text()
    rows = "".join(f"    {name!r}: {tuple(sorted(known))!r},\n" for name, known in sorted(table.items()))
    path.write_text(f"{text[: text.index(head)]}{head}{{\n{rows}}}\n")


if __name__ == "__main__":
    main(sys.argv[1])
