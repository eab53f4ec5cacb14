"""Any saved result, and the report of any result: which kind it is, the file itself says."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer.base import answer_file
from inferometer.base.errors import UsageError
from inferometer.compare.comparison import FAILED, INCONCLUSIVE, Comparison, GateOutcome
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.report.document import Document
from inferometer.report.documents.comparison import comparison_document, sentences
from inferometer.report.documents.diagnosis import diagnosis_document
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.format import first_line
from inferometer.report.markdown import markdown
from inferometer.report.page import render, write
from inferometer.stats.result import Result

Report = Result | Diagnosis | Comparison
KINDS: tuple[type[Report], ...] = (Result, Diagnosis, Comparison)


def read(path: Path) -> Report:
    """The result, diagnosis or comparison in a file."""
    return answer_file.read(path, *KINDS)


@contextmanager
def consistent(*origins: str) -> Iterator[None]:
    """Around whatever is made of saved files: each figure of one may be right, and they may still not fit together."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        names = " or ".join(f"'{origin}'" for origin in origins)
        raise UsageError(
            f"{names} holds figures that do not fit together: {type(error).__name__}: {error}",
            remedy="give the file as it was written, or measure again",
        ) from error


def document(report: Report) -> Document:
    """The report as a document, ready to be written in any form."""
    if isinstance(report, Diagnosis):
        return diagnosis_document(report)
    if isinstance(report, Comparison):
        return comparison_document(report)
    return measurement_document(report)


def to_html(report: Report) -> str:
    """The report as one self-contained page."""
    return render(document(report))


def to_markdown(report: Report) -> str:
    """The report as Markdown, without the charts."""
    return markdown(document(report))


def write_page(path: Path, report: Report) -> None:
    """Write the report as one self-contained page."""
    write(document(report), path)


# --- a comparison as JUnit XML


def to_junit(comparison: Comparison) -> str:
    """JUnit XML for CI: one test case for each condition and variant, one for the validity of the whole."""
    cases = [_validity(comparison), *map(_gate_case, comparison.gates)]
    suite = ET.Element("testsuite", name="inferometer compare", tests=str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(kind) is not None for case in cases)))
    suite.set("timestamp", _xml(comparison.started_at))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _xml("\n".join(sentences(comparison)))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _validity(comparison: Comparison) -> ET.Element:
    case = ET.Element("testcase", classname=_xml(comparison.baseline), name="the comparison is valid")
    if comparison.problems:
        text = _xml("\n".join(comparison.problems))
        ET.SubElement(case, "error", message=_xml(first_line(comparison.problems[0]))).text = text
    return case


def _gate_case(gate: GateOutcome) -> ET.Element:
    case = ET.Element("testcase", classname=_xml(gate.variant), name=_xml(f"not {gate.text}"))
    if gate.outcome == FAILED:
        ET.SubElement(case, "failure", message=_xml(f"{gate.text}: {gate.found}"))
    elif gate.outcome == INCONCLUSIVE:
        ET.SubElement(case, "skipped", message=_xml(f"inconclusive: {gate.found}"))
    return case


def _xml(text: str) -> str:
    """Without the characters XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
