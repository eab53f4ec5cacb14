"""Options of other tools, with their names here."""

OTHER_TOOLS = {
    name: tuple(ours.split())
    for ours, names in {
        "-c": "--vus --users --clients --num-users --num-clients --parallel --concurrent --max-concurrency "
        "--concurrency-min --concurrency-max --concurrency-steps --override",
        "--rate --traffic": "--qps --rps --arrival-rate --rate-limit --overall-rate --throughput --rate --load -R",
        "-n --runs": "--iterations --number --amount --count --samples --runs --last --max-requests",
        "-n": "--num-requests --num-prompts --total-requests --data-loader --no-oversample",
        "--workers": "--threads --processes --max-workers --workers-max --cpus",
        "--body": "--body-file --post --post-data --request-body --data-binary --data-raw -D --extra-body "
        "--extra-inputs --temperature --top-p "
        "--top-k --min-p --frequency-penalty --presence-penalty --repetition-penalty --ignore-eos --logprobs "
        "--use-beam-search --chat-template-kwargs --stop --force-min-tokens --no-force-min-tokens",
        "--service-kind": "--kind --server-type",
        "--endpoint --service-kind": "--backend --endpoint-type --custom-endpoint --skip-chat-template "
        "--rankings-passages-mean --rankings-passages-stddev --rankings-passages-prompt-token-mean "
        "--rankings-passages-prompt-token-stddev --rankings-query-prompt-token-mean "
        "--rankings-query-prompt-token-stddev",
        "--budget --duration": "--time --timelimit --benchmark-duration --max-time --max-duration --length "
        "--seconds --secs --constraint",
        "--budget -d": "--run-time --max-seconds --trials --max-trials",
        "--timeout": "--request-timeout --request-timeout-seconds",
        "--json": "-o --output --out --output-path --output-file --output-dir --summary-export --artifact-dir "
        "--format --output-format --export-format --save --save-result --result --results --output-artifact-dir "
        "--profile-export-prefix --profile-export-file --result-dir --result-filename",
        "--export": "--export-level --profile-export-level --export-outputs-json --save-detailed",
        "--html": "--html-report --report --report-file --auto-plot --no-auto-plot",
        "--perfetto": "--export-http-trace --plot-timeline",
        "-H": "--auth --auth-token --bearer --content-type --cookie --token -A -T",
        "-m": "--model-name --model-names --model-id --lora-modules",
        "--balance": "--url-strategy",
        "--quiet": "--silent --headless --no-tui --no-progress --no-sweep-table --disable-console "
        "--disable-console-outputs --disable-console-interactive --disable-progress --disable-tqdm",
        "-v": "--debug --log-level --extra-verbose --show-trace-timing",
        "--sweep": "--rate-type --profile --step --search-recipe",
        "--data": "--dataset --input-data-file --payload --conversation-num --num-conversations "
        "--num-sessions",
        "--prompts --data": "--input-file",
        "--prompts": "--prompt --prompt-file --custom-dataset-type --dataset-name --dataset-path",
        "--prompt-column": "--data-column-mapper --data-preprocessor",
        "--prompt-tokens": "--isl --synthetic-input-tokens-mean --input-tokens --input-len --random-input-len "
        "--prompt-input-tokens-mean --isl-stddev --prompt-input-tokens-stddev --synthetic-input-tokens-stddev "
        "--seq-dist --sequence-distribution --random-range-ratio --no-fixed-schedule --no-self-timed "
        "--prefix-repetition-suffix-len --prefix-repetition-output-len",
        "--output-tokens": "--osl --output-tokens-mean --output-len --random-output-len --max-tokens --max-new-tokens "
        "--prompt-output-tokens-mean --osl-stddev --prompt-output-tokens-stddev --output-tokens-stddev "
        "--custom-output-len --sharegpt-output-len --hf-output-len --spec-bench-output-len --speed-bench-output-len",
        "--prefix-tokens": "--shared-system-prompt-length --prompt-prefix-length --prefix-prompt-length "
        "--random-prefix-len",
        "--prefix-pool": "--prompt-prefix-pool-size --prefix-prompt-pool-size --num-prefix-prompts "
        "--prefix-repetition-num-prefixes --prefix-repetition-prefix-len",
        "--image": "--image-width-mean --image-height-mean --image-batch-size --batch-size-image "
        "--random-mm-base-items-per-request",
        "--audio": "--audio-length-mean",
        "--fail-if --slo": "--threshold --thresholds --max-regression --tolerance --assert",
        "--slo": "--goodput --sla --objective-latency --max-latency --latency --latency-limit --p50 --p90 --p95 --p99 "
        "--metrics",
        "--warmup": "--warmup-duration --warmup-percent --warm-up",
        "--warmup-requests --warmup": "--num-warmup-requests --num-warmups --warmup-requests",
        "--method": "-X",
        "--batch": "--batch-size --batchsize",
        "--shape-load": "--stages --stage --ramp-up --spawn-rate --request-rate-ramp-duration --request-rate-series "
        "--ramp-up-strategy --ramp-up-start-rps --ramp-up-end-rps",
        "--ramp --shape-load": "--concurrency-ramp-duration --ramp",
        "--speed": "--replay-speedup --synthesis-speedup-ratio",
        "--replay": "--open-loop-strict --self-timed",
        "--url --http-port": "--port",
        "--url": "--host --target --server --base-url --address",
        "--arrivals": "--distribution --poisson --request-distribution --arrival-pattern --request-rate-mode",
        "--burstiness": "--arrival-smoothness --vllm-burstiness",
        "--max-error-rate": "--failed-request-threshold",
        "--cancel-share": "--request-cancellation-rate --request-cancellation-delay",
        "--before-level": "--reset-kv-cache --reset-kv-cache-path --server-profiler --server-profiler-start-path "
        "--profile-run-cooldown-seconds --parameter-sweep-cooldown-seconds",
        "--after-level": "--server-profiler-stop-path",
        "--before-level-timeout": "--reset-kv-cache-timeout-seconds --server-profiler-timeout-seconds",
        "--seed": "--random-seed",
        "--precision": "--convergence-threshold --convergence-mode",
        "--percentile": "--convergence-metric --convergence-stat",
        "--check": "--accuracy-grader",
        "--otlp": "--otel-url",
        "--tag": "--label --metadata --mlflow-tag --mlflow-tracking-uri",
        "--collect-metrics": "--server-metrics",
        "--prometheus": "--api-port --api-host",
        "--ui": "--ui-type",
        "--model-repository": "--models --repository --model-store",
    }.items()
    for name in names.split()
}
"""Our options, the first that the command has, by their names in wrk, k6, vegeta, locust, hey, ab, hyperfine, guidellm,
aiperf and vLLM."""

BODY_FILES = (
    *("--body-file", "--post", "--post-data", "--request-body", "--data-binary", "--data-raw"),
    *("--extra-body", "--extra-inputs"),
)
"""Names of whole bodies or several fields; the other names of `--body` are those of a single field."""
