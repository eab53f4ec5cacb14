"""What a result says of the prompts that were sent."""

from inferometer.base.frozen import frozen


@frozen
class PromptFigures:
    """Of all requests of a run that ended. Tokens are those of the texts, without what a server adds."""

    tokenizer: str  # its file, or `words`
    is_exact: bool  # counted with the tokenizer; else a word counts as a token
    asked: str  # lengths of the prompts; empty where they were given
    asked_output: str  # lengths of the answers; empty where none was asked for
    prefix_tokens: int  # of the text that is shared
    prefixes: int  # how many such texts there were
    is_unique: bool  # every request had a start of its own
    requests: int
    different: int  # rendered requests that were sent, once or many times
    tokens: int
    mean: float
    p50: int
    p99: int
    cacheable: int  # tokens in common with the beginning of an earlier request

    @property
    def cacheable_share(self) -> float:
        return self.cacheable / self.tokens if self.tokens else 0.0
