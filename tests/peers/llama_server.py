"""A real llama.cpp server on a small random model; run by the Python that has xllamacpp and gguf.

`python llama_server.py FOLDER [embeddings | rerank]` makes the model there, writes where it listens to the file
`address` beside it, and serves until stdin ends. Without a second word it has neither embeddings nor rerank.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, LAYERS, FEED, CONTEXT = 64, 4, 2, 128, 4096
WORDS = [
    f"▁{word}"
    for word in ("the", "of", "and", "to", "in", "is", "you", "that", "it", "was", "for", "on", "are")
]
CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


POOLINGS = {
    "embeddings": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN,
    "rerank": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK,
}


def write_model(path: Path, *, is_ranking: bool) -> None:
    random = np.random.default_rng(0)
    specials = ["<unk>", "<s>", "</s>"]
    tokens = specials + [f"<0x{byte:02X}>" for byte in range(256)] + WORDS
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    types += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(WORDS)
    writer = gguf.GGUFWriter(str(path), "qwen3" if is_ranking else "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHAT)

    def add(name: str, *shape: int) -> None:
        values = np.ones(shape) if name.endswith("norm.weight") else random.normal(0, 0.3, shape)
        writer.add_tensor(name, values.astype(np.float32))

    add("token_embd.weight", len(tokens), WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", len(tokens), WIDTH)
    if is_ranking:
        add("cls.output.weight", 2, WIDTH)
        writer.add_classifier_output_labels(["yes", "no"])
    for layer in range(LAYERS):
        add(f"blk.{layer}.attn_norm.weight", WIDTH)
        add(f"blk.{layer}.ffn_norm.weight", WIDTH)
        if is_ranking:
            add(f"blk.{layer}.attn_q_norm.weight", WIDTH // HEADS)
            add(f"blk.{layer}.attn_k_norm.weight", WIDTH // HEADS)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate.weight", FEED, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", FEED, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, FEED)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    pooling = sys.argv[2] if len(sys.argv) > 2 else ""
    model = Path(sys.argv[1]) / "tiny.gguf"
    write_model(model, is_ranking=pooling == "rerank")
    params = xllamacpp.CommonParams()
    if pooling:
        params.embedding = True
        params.pooling_type = POOLINGS[pooling]
    params.model.path = str(model)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 4
    params.n_gpu_layers = 0
    params.warmup = False
    params.endpoint_metrics = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 8
    server = xllamacpp.Server(params)
    # Not to stdout: llama.cpp's own threads write there, also in the middle of a line.
    written = model.with_name("address.new")
    written.write_text(server.listening_address.removeprefix("http://"))
    written.rename(model.with_name("address"))
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
