"""What a run of PolicyTests found, for people and for programs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any
from xml.etree import ElementTree as ET

from webhook.answer.wording import one_line
from webhook.cli.policy_tests import CaseResult, JobResult
from webhook.policy.documents import Fault


def text_of(case: CaseResult) -> str:
    """A line and, where it failed, what was expected of which job and what was found."""
    line = f"{'ok  ' if case.passed else 'FAIL'}  {case.file}:{case.line}  {one_line(case.name)}"
    return "\n".join([line, *(f"      {told}" for told in _told(case))])


def report(cases: Sequence[CaseResult], faults: Sequence[Fault]) -> str:
    """One JSON document; every key is always there."""
    failed = sum(not one.passed for one in cases)
    document = {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "PolicyTestReport",
        "passed": len(cases) - failed,
        "failed": failed,
        "cases": [_case(one) for one in cases],
        "errors": [asdict(one) for one in faults],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def junit(cases: Sequence[CaseResult], faults: Sequence[Fault]) -> str:
    """JUnit's XML as CI systems read it: a suite for each file, an error for what could not be read."""
    suites = ET.Element("testsuites", name="samestep test")
    for file, group in groupby(cases, key=lambda one: one.file):
        found = list(group)
        suite = _suite(suites, file, tests=len(found), failures=sum(not one.passed for one in found), errors=0)
        for one in found:
            element = _element(suite, classname=one.test, name=one.name, file=file, line=str(one.line))
            if not one.passed:
                told = _told(one)
                failure = ET.SubElement(element, "failure", message=f"{file}:{one.line}: not as expected")
                failure.text = "\n".join(told)
    if faults:
        suite = _suite(suites, "unreadable", tests=len(faults), failures=0, errors=len(faults))
        for fault in faults:
            element = _element(suite, classname="unreadable", name=fault.file)
            ET.SubElement(element, "error", message=str(fault))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}'


def _told(case: CaseResult) -> list[str]:
    return [line for job in case.jobs if job.differences for line in _lines(job)]


def _lines(job: JobResult) -> Iterable[str]:
    yield f"{job.source}  {_named(job)}"
    for one in job.differences:
        for sign, said in (("-", one.expected), ("+", one.found)):
            first, *rest = said.splitlines()
            yield f"  {sign} {one.field}: {one_line(first)}"
            yield from (f"  {sign}   {line}".rstrip() for line in rest)


def _named(job: JobResult) -> str:
    metadata = job.request.object.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return one_line(f"{job.request.kind.kind} {job.request.namespace}/{name or ''}")


def _suite(suites: ET.Element, name: str, **counts: int) -> ET.Element:
    return ET.SubElement(suites, "testsuite", {"name": name, **{key: str(count) for key, count in counts.items()}})


def _element(suite: ET.Element, **attributes: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {key: one_line(value) for key, value in attributes.items()})


def _case(one: CaseResult) -> dict[str, Any]:
    return {
        "file": one.file,
        "line": one.line,
        "test": one.test,
        "name": one.name,
        "passed": one.passed,
        "jobs": [
            {
                "source": job.source,
                "object": _named(job),
                "verdict": job.outcome.verdict,
                "differences": [
                    {"field": each.field, "expected": each.expected, "found": each.found} for each in job.differences
                ],
            }
            for job in one.jobs
        ],
    }
