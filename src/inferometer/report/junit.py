"""An answer as JUnit XML, which CI systems show as test cases."""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as ET

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note
from inferometer.compare.comparison import FAILED, INCONCLUSIVE, Comparison
from inferometer.compare.regression import RegressionCheck
from inferometer.report.document import Document
from inferometer.report.documents.comparison import sentences
from inferometer.report.format import first_line, level_label, plural
from inferometer.report.promises import reasons
from inferometer.report.sentences import finding_sentence, is_never_met, verdict_words
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result

_PROBLEMS = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))


@frozen
class Case:
    """A test case, which passed if it has no problem."""

    group: str
    name: str
    problem: str = ""  # failure, error or skipped
    message: str = ""
    text: str = ""  # details


def junit(name: str, started_at: str, cases: Iterable[Case], said: str) -> str:
    """Text of the XML file; `said` is a summary for human readers."""
    rows = tuple(cases)
    suite = ET.Element("testsuite", name=name, tests=str(len(rows)))
    for attribute, problem in _PROBLEMS:
        suite.set(attribute, str(sum(row.problem == problem for row in rows)))
    suite.set("timestamp", _xml(started_at))
    for row in rows:
        case = ET.SubElement(suite, "testcase", classname=_xml(row.group), name=_xml(row.name))
        if row.problem:
            ET.SubElement(case, row.problem, message=_xml(row.message)).text = _xml(row.text) or None
    ET.SubElement(suite, "system-out").text = _xml(said)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """Replace the characters that XML cannot represent."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def result_junit(result: Result, made: Document) -> str:
    return junit(f"inferometer {result.command}", result.started_at, result_cases(result), made.verdict)


def comparison_junit(comparison: Comparison, _: Document) -> str:
    said = "\n".join(sentences(comparison))
    return junit("inferometer compare", comparison.started_at, comparison_cases(comparison), said)


def regression_junit(check: RegressionCheck, made: Document) -> str:
    return junit("inferometer gate", check.started_at, regression_cases(check), made.verdict)


def comparison_cases(comparison: Comparison) -> Iterator[Case]:
    """A case for each condition and variant, and one for the validity of the comparison."""
    group, name = comparison.baseline, "the comparison is valid"
    if comparison.problems:
        yield Case(group, name, "error", first_line(comparison.problems[0]), "\n".join(comparison.problems))
    else:
        yield Case(group, name)
    outcomes = {FAILED: ("failure", "{text}: {found}"), INCONCLUSIVE: ("skipped", "inconclusive: {found}")}
    for gate in comparison.gates:
        problem, why = outcomes.get(gate.outcome, ("", ""))
        yield Case(gate.variant, f"not {gate.text}", problem, why.format(text=gate.text, found=gate.found))


def regression_cases(check: RegressionCheck) -> Iterator[Case]:
    """A case for each figure and load, and one for the validity of the run."""
    group = check.model
    if check.problems:
        yield Case(
            group, "the run is valid", "error", first_line(check.problems[0]), "\n".join(check.problems)
        )
    else:
        yield Case(group, "the run is valid")
    problems = {FAILED: "failure", INCONCLUSIVE: "skipped"}
    for row in check.judgements:
        name = f"{row.figure} at {level_label(row.mode, row.value)} is not {row.rule}"
        problem = problems.get(row.outcome, "")
        yield Case(group, name, problem, f"{row.figure}: {row.found}" if problem else "")


def result_cases(result: Result) -> Iterator[Case]:
    """A case for each level: whether it was measured and meets its SLO; for a search, one case for its answer."""
    group = str(result.model.get("name", "model"))
    finding = result.finding
    if finding is not None:
        problem = "" if finding.value else "failure" if is_never_met(finding) else "skipped"
        yield Case(group, f"meets {finding.promise}", problem, finding_sentence(finding) if problem else "")
        return
    most, unit = float(result.effective.max_error_rate or 0.0), result.effective.rate_unit
    for level in result.levels:
        problem, why = _problem(level, most if result.fails_too_often(most) else 1.0, unit)
        name = level_label(level.mode, level.value)
        yield Case(
            group, name if level.promise is None else f"{name} meets {level.promise.promise}", problem, why
        )
        for row in level.classes:
            if row.promise is not None:
                broken = {"broken": "failure", "undecided": "skipped"}.get(row.promise.verdict, "")
                case = f"{name}, {row.name} meets {row.promise.promise}"
                yield Case(group, case, broken, reasons(row.promise, unit) if broken else "")
    if (verdict := result.mlperf) is not None:
        problem = "" if verdict.is_valid else "failure" if verdict.is_too_slow else "skipped"
        why = "; ".join(f"{rule.name}: {rule.text}" for rule in verdict.failed)
        yield Case(group, f"is VALID in MLPerf's {verdict.scenario} scenario", problem, why)
    for remark in result.remarks:
        if remark.note is Note.WORKER_LOST:
            yield Case(group, "the run", "failure", first_line(remark.text))


def _problem(level: Level, most_failed: float, unit: str) -> tuple[str, str]:
    found = level.measurement
    if found is None and level.has_remark(Note.INTERRUPTED):
        return "skipped", "interrupted"
    if level.is_cut_short or level.has_remark(Note.CLIENT_LOST) or found is None or not found.request_count:
        return "failure", verdict_words(level)
    if found.failed_share > most_failed:
        return "failure", f"{found.failed_count:,} of {plural(found.ended_count, 'request')} failed"
    outcome = level.promise
    if outcome is not None and outcome.verdict == "broken":
        return "failure", reasons(outcome, unit)
    if level.has_remark(Note.INTERRUPTED):
        return "skipped", "interrupted"
    if outcome is None or outcome.verdict == "kept":
        return "", ""
    return "skipped", f"undecided: {reasons(outcome, unit)}"
