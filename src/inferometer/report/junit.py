"""A comparison as JUnit XML for CI: one test case for each condition and variant, one for the validity of the whole."""

import xml.etree.ElementTree as ET

from inferometer.compare.comparison import FAILED, INCONCLUSIVE, Comparison, GateOutcome
from inferometer.report.documents.comparison import sentences
from inferometer.report.escape import xml
from inferometer.report.format import first_line


def to_junit(comparison: Comparison) -> str:
    """One test case for each condition and variant, one for the validity of the whole."""
    cases = [_validity(comparison), *map(_gate_case, comparison.gates)]
    count = {
        kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")
    }
    suite = ET.Element(
        "testsuite",
        name="inferometer compare",
        tests=str(len(cases)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
        timestamp=xml(comparison.started_at),
    )
    suite.extend(cases)
    output = ET.SubElement(suite, "system-out")
    output.text = xml("\n".join(sentences(comparison)))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _validity(comparison: Comparison) -> ET.Element:
    case = ET.Element("testcase", classname=xml(comparison.baseline), name="the comparison is valid")
    if comparison.problems:
        text = xml("\n".join(comparison.problems))
        ET.SubElement(case, "error", message=xml(first_line(comparison.problems[0]))).text = text
    return case


def _gate_case(gate: GateOutcome) -> ET.Element:
    case = ET.Element("testcase", classname=xml(gate.variant), name=xml(f"not {gate.text}"))
    if gate.outcome == FAILED:
        ET.SubElement(case, "failure", message=xml(f"{gate.text}: {gate.found}"))
    elif gate.outcome == INCONCLUSIVE:
        ET.SubElement(case, "skipped", message=xml(f"inconclusive: {gate.found}"))
    return case
