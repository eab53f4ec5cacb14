"""A small random model for the server in `transformers`; run by the Python that has it.

`python transformers_model.py FOLDER` writes it there: two layers, and a tokenizer of whole words. Its end token has so
low a bias that no answer ends before it is as long as was asked for.
"""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("the", "of", "and", "to", "in", "is", "you", "that", "it", "was", "for", "on", "are")
CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def main(folder: str) -> None:
    specials = ("<unk>", "<s>", "</s>")
    vocabulary = {word: number for number, word in enumerate((*specials, *WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=CHAT
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[:3] = 0  # words alone are said: of those one is always above 0
    model.generation_config.suppress_tokens = [0, 1, 2]
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
