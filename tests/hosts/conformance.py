"""The MCP conformance suites against the gateway: `python -m tests.hosts.conformance`. Writes docs/conformance.md.

A scenario counts as skipped only when each of its failing checks is down to something that the suite wants a server to
have for its sake (a tool called `test_simple_text`, a resource, a capability we do not offer); the table names it.
Everything else that fails is a failure of ours, and the exit code is 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doors_fixtures import TOKEN
from tests.hosts.running import ROOT, node, npm, running

REPORT = ROOT / "docs" / "conformance.md"
BY_HAND = "\n# Programs of others\n"
"""From this heading on the report is written by hand, and kept."""

RUNS = (
    # version, what it is asked to run, what that is called
    ("0.1.16", ("--suite", "all"), "all scenarios (it knows requirements up to 2025-11-25)"),
    ("0.2.0-alpha.12", ("--requirements", "2025-11-25"), "requirements 2025-11-25"),
    ("0.2.0-alpha.12", ("--requirements", "2026-07-28"), "requirements 2026-07-28"),
)

NAMED = (
    # how a failing check says which fixture it missed
    re.compile(r"no tool is called '([\w-]+)'"),
    re.compile(r"diagnostic tool '([\w-]+)'"),
    re.compile(r"Tool '([\w-]+)' not found"),
)

WANTED = {
    # scenario: the fixture or capability that it is about, where no message names it
    "completion-complete": "the capability `completions`",
    "logging-set-level": "the capability `logging`",
    "tools-call-with-logging": "the capability `logging`, and tool `test_tool_with_logging`",
    "resources-subscribe": "the capability `resources.subscribe`",
    "resources-unsubscribe": "the capability `resources.subscribe`",
    "resources-read-text": "resource `test://static-text`",
    "resources-read-binary": "resource `test://static-binary`",
    "resources-templates-read": "resource template `test://template/{id}/data`",
    "prompts-get-simple": "prompt `test_simple_prompt`",
    "prompts-get-with-args": "prompt `test_prompt_with_arguments`",
    "prompts-get-embedded-resource": "prompt `test_prompt_with_embedded_resource`",
    "prompts-get-with-image": "prompt `test_prompt_with_image`",
    "http-custom-header-server-validation": "a tool with `x-mcp-header` annotations",
    "input-required-result-missing-input-response": "tool `test_input_required_result_elicitation`",
    "input-required-result-multi-round": "tool `test_input_required_result_multi_round`",
    "input-required-result-non-tool-request": "prompt `test_input_required_result_prompt`",
    "input-required-result-tampered-state": "tool `test_input_required_result_tampered_state`",
    "tasks-lifecycle": "the extension `tasks`",
    "tasks-capability-negotiation": "the extension `tasks`",
    "tasks-wire-fields": "the extension `tasks`",
    "tasks-request-state-removal": "the extension `tasks`",
    "tasks-mrtr-input": "the extension `tasks`",
    "tasks-request-headers": "the extension `tasks`",
    "tasks-dispatch-and-envelope": "the extension `tasks`",
    "tasks-status-notifications": "the extension `tasks`",
    "tasks-required-task-error": "the extension `tasks`",
    "tasks-mrtr-composition": "the extension `tasks`",
}

EXCUSES = re.compile(
    r"Method not found|there are no (resources|prompts) here|Not testable|Prerequisite failed"
    r"|Expected InputRequiredResult|instead of re-requesting|fixture .* unavailable|Skipped|MUST be advertised"
    r"|MUST return -32021|returned error code -32602; spec requires -32021|got -32601"
)
"""What a check says when only the fixture of `WANTED` is missing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One scenario of one run."""

    scenario: str
    verdict: str
    why: str


def judge(scenario: str, checks: list[dict[str, Any]]) -> Judged:
    passed = sum(check["status"] in ("SUCCESS", "INFO") for check in checks)
    missed: dict[str, None] = {}
    unexplained: list[str] = []
    for check in checks:
        if check["status"] in ("SUCCESS", "INFO"):
            continue
        said = str(check.get("errorMessage") or (check.get("details") or {}).get("note") or check["description"])
        named = next((found[1] for pattern in NAMED if (found := pattern.search(said))), None)
        if scenario in WANTED and (named or EXCUSES.search(said)):
            missed[WANTED[scenario]] = None
        elif named:
            missed[f"tool `{named}`"] = None
        elif check["status"] == "FAILURE":
            unexplained.append(f"{check['id']}: {said[:200]}")
    if unexplained:
        return Judged(scenario, "**fail**", "; ".join(unexplained))
    if missed:
        also = f"; other checks passed: {passed}" if passed else ""
        return Judged(scenario, "skip", f"wants {', '.join(missed)}{also}")
    notes = [
        str((check.get("details") or {}).get("message") or check["description"])
        for check in checks
        if check["status"] == "WARNING"
    ]
    return Judged(scenario, "pass", "; ".join(notes))


def run(version: str, arguments: tuple[str, ...], url: str) -> list[Judged]:
    home = npm(f"conformance-{version}", f"@modelcontextprotocol/conformance@{version}")
    with tempfile.TemporaryDirectory() as folder:
        suite = home / "node_modules" / ".bin" / "conformance"
        subprocess.run(
            [node(), suite, "server", "--url", url, *arguments, "-o", folder],
            timeout=600,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        judged = []
        for file in sorted(Path(folder).glob("*/checks.json")):
            scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
            judged.append(judge(scenario, json.loads(file.read_text(encoding="utf-8"))))
        return judged


def main() -> int:
    lines = [
        "# Conformance",
        "",
        "The official suites (`@modelcontextprotocol/conformance` from npm), unmodified, against the gateway with a",
        "bearer token, which stands in the path since the suites send no headers. Made by",
        "`python -m tests.hosts.conformance`. Most scenarios call tools, prompts and resources that a server would",
        "have to carry for the suite's sake; the gateway has two tools of its own, so that such a scenario is a skip",
        "that names what it wants.",
        "",
    ]
    failed = 0
    with running() as address:
        for version, arguments, title in RUNS:
            judged = run(version, arguments, f"{address}/t/{TOKEN}/mcp")
            counts = {
                verdict: sum(each.verdict == verdict for each in judged) for verdict in ("pass", "skip", "**fail**")
            }
            failed += counts["**fail**"] or not judged
            summary = f"{counts['pass']} passed, {counts['**fail**']} failed, {counts['skip']} skipped"
            print(f"{version}, {title}: {summary}")
            lines += [f"## {version}: {title}", "", f"{summary}.", "", "| scenario | | why |", "| --- | --- | --- |"]
            lines += [f"| {each.scenario} | {each.verdict} | {each.why.replace('|', '/')} |" for each in judged] + [""]
            for each in judged:
                if each.verdict == "**fail**":
                    print(f"  fail {each.scenario}: {each.why}")
    _, heading, kept = REPORT.read_text(encoding="utf-8").partition(BY_HAND)
    REPORT.write_text("\n".join(lines) + heading + kept, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
