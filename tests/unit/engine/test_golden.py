"""Golden histories: every event of some thirty programs, exactly as it was when somebody last looked at it.

``make golden`` writes them anew after a change that is meant; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engine.golden_programs import PROGRAMS, Golden, played

FOLDER = Path(__file__).with_name("golden")
IS_WRITING = os.environ.get("DW_WRITE_GOLDEN") == "1"


def text(fixture: dict[str, Any]) -> str:
    """One event per line, so that a difference shows which."""
    events = {id(case["history"]): case["history"] for case in fixture["cases"]}
    marks = {f"history-{number}": history for number, history in enumerate(events.values())}
    names = {id(history): mark for mark, history in marks.items()}
    cases = [case | {"history": names[id(case["history"])]} for case in fixture["cases"]]
    shown = json.dumps(fixture | {"cases": cases}, indent=1, ensure_ascii=False)
    for mark, history in marks.items():
        lines = ",\n    ".join(json.dumps(event, ensure_ascii=False) for event in history)
        shown = shown.replace(f'"{mark}"', f"[\n    {lines}\n   ]", 1)
    return shown + "\n"


@pytest.mark.parametrize("golden", PROGRAMS, ids=lambda golden: str(golden.name))
def test_a_program_has_the_history_it_had(golden: Golden) -> None:
    found = text(played(golden))
    path = FOLDER / f"{golden.name}.json"
    if IS_WRITING:
        path.write_text(found, encoding="utf-8")
    assert json.loads(found) == json.loads(path.read_text(encoding="utf-8"))
    assert found == path.read_text(encoding="utf-8")


def test_every_fixture_belongs_to_a_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {golden.name for golden in PROGRAMS}


def test_the_published_verifier_replays_every_history() -> None:
    command = [str(Path(sys.executable).with_name("durable-workflow-replay-verify")), str(FOLDER)]
    command += ["--workflows", "tests.unit.engine.golden_workflows:golden_workflows", "--strict-missing-families"]
    root = Path(__file__).parents[3]
    environ = os.environ | {"PYTHONPATH": str(root)}
    verdict = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environ)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    report = json.loads(verdict.stdout)
    assert report["summary"]["cases"] >= len(PROGRAMS)
    assert report["summary"]["replayed"] == report["summary"]["cases"]
