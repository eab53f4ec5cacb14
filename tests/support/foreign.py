"""Result files of other load testers: real ones in tests/data/foreign, and samples in the form of two more."""

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "foreign"


def foreign_file(name: str) -> Path:
    """Return a file that the tool itself wrote, without what identifies the machine."""
    return FOLDER / name


VLLM: dict[str, Any] = {
    "date": "20261118-132552",
    "backend": "openai-chat",
    "model_id": "m",
    "num_prompts": 4,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 2,
    "duration": 0.25,
    "completed": 3,
    "failed": 1,
    "total_input_tokens": 30,
    "total_output_tokens": 9,
    "request_throughput": 12.0,
    "output_throughput": 36.0,
    "total_token_throughput": 156.0,
    "mean_ttft_ms": 50.0,
    "median_ttft_ms": 50.0,
    "std_ttft_ms": 8.2,
    "p99_ttft_ms": 59.8,
    "mean_tpot_ms": 11.0,
    "median_tpot_ms": 10.0,
    "std_tpot_ms": 2.0,
    "p99_tpot_ms": 14.9,
    "mean_itl_ms": 11.0,
    "median_itl_ms": 10.0,
    "std_itl_ms": 2.5,
    "p99_itl_ms": 19.8,
    "input_lens": [10, 10, 10, 10],
    "output_lens": [3, 3, 0, 3],
    "ttfts": [0.04, 0.05, 0.0, 0.06],
    "itls": [[0.01, 0.01], [0.01, 0.02], [], [0.01, 0.01]],
    "start_times": [100.0, 100.01, 100.07, 100.09],
    "generated_texts": ["a b c", "a b c", "", "a b c"],
    "errors": ["", "", "Service Unavailable: 503", ""],
}
"""A result of `vllm bench serve --save-result --save-detailed`, with the fields of vLLM 0.32."""

LLM_D: dict[str, Any] = {
    "version": "0.2",
    "run": {
        "uid": "38b1f169ca178b756f7483523b17de61",
        "time": {"start": "2025-11-05T18:00:42Z", "end": "2025-11-05T18:01:32Z", "duration": "PT49.97S"},
    },
    "scenario": {
        "stack": [{"standardized": {"kind": "inference_engine", "model": {"name": "Qwen/Qwen3-0.6B"}}}],
        "load": {
            "metadata": {},
            "standardized": {
                "tool": "inference-perf",
                "tool_version": "0.3.0",
                "source": "sampled",
                "stage": 3,
                "input_seq_len": {"distribution": "fixed", "value": 2148},
                "rate_qps": 10,
            },
            "native": {},
        },
    },
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {
                    "total": 500,
                    "failures": 2,
                    "input_length": {"units": "count", "mean": 2262.5, "min": 2223, "max": 2328},
                    "output_length": {"units": "count", "mean": 1000.0},
                },
                "throughput": {
                    "request_rate": {"units": "queries/s", "mean": 9.96},
                    "output_token_rate": {"units": "tokens/s", "mean": 9960.0},
                },
                "latency": {
                    "time_to_first_token": {
                        "units": "ms",
                        "mean": 36.8,
                        "p50": 36.2,
                        "p99": 50.3,
                        "p99p9": 57.0,
                    },
                    "time_per_output_token": {"units": "s/token", "mean": 0.0049},
                    "request_latency": {"units": "s", "mean": 4.95, "stddev": 0.4, "p99": 5.8},
                },
            }
        }
    },
}
"""A report with the shape of the examples in llm-d's repository: few statistics, and units that vary."""
