"""A model that generates text behind an OpenAI-compatible server: its requests and figures."""

from typing import Any

from inferometer.dialects.model_analyzer.build import text_options
from inferometer.dialects.model_analyzer.flags import genai_flags
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.tune.meter import EngineMeter
from inferometer.tune.search.search import Proposal
from inferometer.tune.settings import Addresses, Effort
from inferometer.tune.trial import ClientLoad
from inferometer.tune.variant import ModelVariant
from tests.support.openai import FakeOpenAi

FLAGS = {
    "service-kind": "openai",
    "input-tokens-mean": 6,
    "expected-output-tokens": 3,
    "num-of-output-prompts": 4,
}


class Elsewhere:
    """A stand-in for Triton, which gets no load."""

    addresses = Addresses("127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:9/metrics")
    pid = None
    warms_by_load = False

    def host(self, model):
        return None


def measured(more):
    """Return the received requests, the prompts, and the figures."""
    with FakeOpenAi() as fake:
        flags = genai_flags("genai_perf_flags", {**FLAGS, **more, "url": fake.server.address})
        options, prompts = text_options(
            changed(Options(), model="tiny"), flags, "genai_perf_flags", has_data=False
        )
        meter = EngineMeter({"tiny": options}, Effort(0.3, 0.5), {"tiny": prompts})
        proposal = Proposal(
            ((ModelVariant("tiny", "tiny_config_0", {}, {"name": "tiny"}), ClientLoad(concurrency=2)),)
        )
        try:
            elsewhere: Any = Elsewhere()
            (figures,) = meter.measure(proposal, elsewhere, is_fresh=True).parts
        finally:
            meter.close()
    return fake.payloads, prompts, figures


def test_each_prompt_asks_for_its_length_and_has_the_extra_inputs():
    payloads, prompts, _ = measured({"output-tokens-stddev": 9, "extra-inputs": {"temperature": 0.5}})
    asked = {payload["messages"][0]["content"]: payload["max_tokens"] for payload in payloads}
    assert asked == dict(zip(prompts.texts(), prompts.output_lengths(4), strict=True))
    assert len(set(asked.values())) > 1
    assert {payload["temperature"] for payload in payloads} == {0.5}


def test_prompts_are_sent_to_an_openai_server_and_tokens_are_counted():
    payloads, prompts, figures = measured({})
    texts = {payload["messages"][0]["content"] for payload in payloads}
    assert texts == set(prompts.texts())
    assert {len(text.split()) for text in texts} == {6}
    assert {(payload["max_tokens"], payload["stream"]) for payload in payloads} == {(3, True)}
    assert figures.get("output_token_throughput") > figures.get("perf_throughput") > 0
    for tag in ("time_to_first_token", "inter_token_latency"):
        low, middle, high = (figures.get(f"{tag}_{statistic}") for statistic in ("min", "p50", "max"))
        assert 0 <= low <= middle <= high
    assert figures.get("time_to_first_token_p99") <= figures.get("perf_latency_p99") * 1.0001
