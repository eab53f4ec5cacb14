"""Sentences in reports agree with the figures next to them, for any study."""

import re
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferometer.report.document import Table
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.study import across_document, study_document
from inferometer.report.documents.study_facts import effect_sentence, main_effects
from inferometer.report.documents.variant import detailed
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.estimate import Estimate
from inferometer.tune.scoring import Constraint, Goal, gain
from inferometer.tune.study import Study, recommend
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart
from inferometer.tune.variant import VariantNames
from tests.support.samples import examples
from tests.unit.tune.scripted import W

EXAMPLES = examples(12)

LONG = "a_model_with_a_name_that_fills_a_line"
OBJECTIVES = ("perf_throughput", "perf_latency_p99", "perf_latency_avg", "cpu_used_ram")


@st.composite
def estimates(draw):
    value = draw(st.sampled_from([0.04, 1.0, 1.005, 50.0, 100.0, 100.4, 232.6, 3414.0, 1e6]))
    if draw(st.booleans()):
        return Estimate(value)
    width = draw(st.sampled_from([0.0, 0.01, 0.5, 1.5]))
    return Estimate(value, value * (1 - width), value * (1 + width))


@st.composite
def variants(draw, names, model):
    """A variant that may change nothing, and may have members."""
    overrides = {}
    if draw(st.booleans()):
        overrides["instance_group"] = [{"count": draw(st.integers(1, 3)), "kind": "KIND_CPU"}]
    if draw(st.booleans()):
        overrides["max_batch_size"] = draw(st.sampled_from([1, 4]))
    return names.variant(model, {**W, "name": model}, overrides, cpu_only=True)


@st.composite
def ensembles(draw, names):
    members = tuple(draw(variants(names, model)) for model in ("first_member", "second_member"))
    base = {"name": "ens", "platform": "ensemble", "ensemble_scheduling": {"step": []}}
    return names.variant("ens", base, {"max_batch_size": 1}, cpu_only=True, composing=members)


@st.composite
def studies(draw):
    model = draw(st.sampled_from(["W", LONG, "ens"]))
    goal = Goal(
        model,
        objectives=tuple((tag, 1.0) for tag in draw(st.sets(st.sampled_from(OBJECTIVES), min_size=1))),
        constraints=tuple(draw(st.lists(st.just(Constraint("perf_latency_p99", high=60.0)), max_size=1))),
    )
    names, trials = VariantNames(), []
    for number in range(draw(st.integers(0, 6))):
        variant = draw(ensembles(names) if model == "ens" else variants(names, model))
        load = ClientLoad(concurrency=draw(st.sampled_from([1, 1024])), batch=draw(st.sampled_from([1, 2])))
        rows = tuple((tag, draw(estimates())) for tag in draw(st.sets(st.sampled_from(OBJECTIVES))))
        status = draw(st.sampled_from([Status.MEASURED] * 4 + [Status.FAILED, Status.SKIPPED]))
        trials.append(
            Trial(
                number,
                (TrialPart(model, variant.name, load, Figures(rows if status is Status.MEASURED else ())),),
                status,
                "" if status is Status.MEASURED else draw(st.sampled_from(["it broke", "expected 4245"])),
                predicted=tuple(draw(st.lists(st.just(("perf_throughput", 99.0)), max_size=1))),
                key=str(number),
            )
        )
    return Study("test", "online", "smart", (goal,), tuple(names.known.values()), tuple(trials))


def said(study):
    """Every sentence and table about a study, without its data."""
    bare = replace(study_document(study, 3), source="", source_name="")
    words = [markdown(bare), facts.sentence(study), facts.why(study)]
    words += [facts.trial_line(trial) for trial in study.trials]
    words.append(markdown(across_document([study], 3)))
    if study.ranked:
        words.append(markdown(replace(detailed(study, study.ranked[0].name), source="", source_name="")))
    return "\n".join(words)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(studies())
def test_sentences_agree_with_the_figures(study):
    words, found = said(study), recommend(study)
    gains = re.findall(r"\d+ ?% (?:better|in the objectives|against)|\d+% better", words)
    if gains:
        base = next(row for row in study.ranked if row.name == study.default_name)
        assert found.best.name != base.name
        assert gain(study.goals, found.best.best, base.best) > 0
        assert found.is_sure
    assert "nan" not in words.replace("second_member", "")
    assert not re.search(
        r"\bNone\b", words.replace("Constraint targets: None", "").replace("Constraints | None", "")
    )
    if study.default_name not in {row.name for row in study.ranked}:
        assert "does not satisfy the constraints" not in words
        assert "does not keep the constraints" not in words


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(studies())
def test_a_parameter_is_never_compared_with_itself(study):
    found = re.search(
        r"the best with (.*) has (.*), the best with (.*) has (\S+) \(", effect_sentence(main_effects(study))
    )
    if found is not None:
        value, figure, other_value, other_figure = found.groups()
        assert value != other_value
        assert figure != other_figure


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(studies())
def test_every_row_names_its_subject_and_no_name_is_broken(study):
    document = study_document(study, 3)
    blocks = [block for section in document.sections for block in section.blocks]
    for table in (block for block in blocks if isinstance(block, Table)):
        for row in table.rows:
            assert row[0], table.caption
            if table.caption not in ("Main effects",):
                assert "_config_" in row[0], table.caption
    body = render(replace(document, source="", source_name="")).split("</style>", 1)[1]
    for kind, cell in re.findall(r"<t[hd][^>]*?(?: class=\"(\w+)\")?>([^<]*)</t[hd]>", body):
        if re.match(r"\S*_config_", cell):
            assert kind == "name", cell
