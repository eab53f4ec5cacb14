"""Figures of the prompts that were sent."""

from inferometer.base.frozen import frozen


@frozen
class PromptFigures:
    """Prompts of all requests of a run that ended. Tokens are those of the texts, without additions by the server."""

    tokenizer: str  # file name, or `words`
    is_exact: bool  # counted with the tokenizer; otherwise a word counts as a token
    asked: str  # requested prompt lengths; empty if prompts were given
    asked_output: str  # requested answer lengths; empty if none
    prefix_tokens: int  # of the shared text
    prefixes: int  # number of shared texts
    is_unique: bool  # every request had its own beginning
    requests: int
    different: int  # distinct rendered requests that were sent
    tokens: int
    mean: float
    p50: int
    p99: int
    cacheable: int  # tokens shared with the beginning of an earlier request

    @property
    def cacheable_share(self) -> float:
        return self.cacheable / self.tokens if self.tokens else 0.0
