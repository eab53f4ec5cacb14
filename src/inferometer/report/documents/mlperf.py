"""The verdict of MLPerf's rules, and the result of the sequential test of the same question."""

from collections.abc import Iterator

from inferometer.report.document import Column, Message, Messages, Section, Table, Tone, text_columns
from inferometer.report.format import duration, plain_number, quantity, share
from inferometer.stats.mlperf import MlperfVerdict, SequentialAnswer
from inferometer.stats.result import Result

_TONES = {"met": Tone.GOOD, "violated": Tone.BAD, "undecided": Tone.WARNING}


def validity(verdict: MlperfVerdict) -> str:
    return "VALID" if verdict.is_valid else "INVALID"


def mlperf_sentence(result: Result) -> str:
    """State the verdict and the rules that failed; empty for other runs."""
    verdict = result.mlperf
    if verdict is None:
        return ""
    said = f"MLPerf {verdict.scenario}: {validity(verdict)}"
    reasons = "; ".join(f"{rule.name}: {rule.text}" for rule in verdict.failed)
    return f"{said} ({reasons})." if reasons else f"{said}."


def mlperf_section(result: Result) -> Section | None:
    """The rules one by one, and the answers of the sequential test."""
    verdict = result.mlperf
    if verdict is None:
        return None
    columns = tuple(text_columns("Rule", "Found", "Met"))
    rows = tuple((rule.name, rule.text, "yes" if rule.is_met else "no") for rule in verdict.rules)
    tones = tuple(Tone.GOOD if rule.is_met else Tone.BAD for rule in verdict.rules)
    blocks: list[Table | Messages] = [Table("Rules of MLPerf's loadgen", columns, rows, tones=tones)]
    if verdict.sequential:
        blocks.append(_side_by_side(verdict))
    if messages := tuple(Message(text, tone=Tone.PLAIN) for text in _sentences(verdict)):
        blocks.append(Messages(messages))
    return Section("mlperf", f"MLPerf {verdict.scenario}: {validity(verdict)}", "", tuple(blocks))


def _side_by_side(verdict: MlperfVerdict) -> Table:
    """Both verdicts on each target, with the queries that they needed."""
    columns = (*text_columns("Question", "Test"), Column("Queries"), *text_columns("Error", "Answer"))
    rows, tones = [], []
    for row in verdict.sequential:
        question = f"{_name(row)} within {duration(row.limit_ns)}"
        if verdict.scenario == "server":
            rows.append((question, "loadgen", f"{verdict.queries:,}", "1 %", validity(verdict)))
            tones.append(Tone.GOOD if verdict.is_valid else Tone.BAD)
        rows.append((question, "sequential", f"{row.queries:,}", share(row.error), row.answer))
        tones.append(_TONES[row.answer])
    return Table("The same question", columns, tuple(rows), tones=tuple(tones))


def _name(row: SequentialAnswer) -> str:
    figure = "" if row.figure == "latency" else f"{row.figure} "
    return f"{figure}p{plain_number(row.share * 100)}"


def _sentences(verdict: MlperfVerdict) -> Iterator[str]:
    for row in verdict.sequential:
        over = f"{row.over:,} of the first {row.queries:,} queries over {duration(row.limit_ns)}"
        if row.answer == "undecided":
            yield f"The sequential test is undecided: {row.over:,} of {row.queries:,} queries are over the target."
        else:
            spared = 1 - row.queries / max(1, verdict.queries)
            yield (
                f"The sequential test had its answer, {_name(row)} {row.answer}, after {over}: {share(spared)} fewer "
                f"queries, with a probability of error of at most {share(row.error)} for independent queries."
            )
    if verdict.samples_per_s is not None:
        yield f"{quantity(verdict.samples_per_s)} samples/s."
    if not verdict.is_full_length:
        yield "A submission to MLPerf needs a minimum duration of 600 s; this run had a shorter one."
