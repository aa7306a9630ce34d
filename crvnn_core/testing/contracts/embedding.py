"""The contract of embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Embedding
from crvnn_core.testing.common import WIDTH, build, finite

#: Words that any collection of English has, a digit, and a token that none has.
TOKENS = ("the", "of", "and", "a", "in", "is", "1", ".", "qzxv-qzxv")


def _table(
    embedding: Embedding, tokens: Sequence[str] = TOKENS, width: int = WIDTH, seed: int = 3
) -> tuple[Sequence[str], Tensor]:
    """What the embedding gives when torch's generator starts from ``seed``."""
    torch.manual_seed(seed)
    return embedding.table(tokens, width)


def _same_table(one: tuple[Sequence[str], Tensor], two: tuple[Sequence[str], Tensor], what: str) -> None:
    assert list(one[0]) == list(two[0]), f"{what}: the tokens are others, or in another order"
    assert torch.equal(one[1], two[1]), f"{what}: the vectors differ"


def _known(tokens: Sequence[str]) -> str:
    """A token that was asked for and has a vector."""
    known = [token for token in TOKENS if token in tokens]
    assert known, f"none of the tokens that were asked for has a vector: {', '.join(TOKENS)}"
    return known[0]


def check_embedding_names_its_tokens(component: Component) -> None:
    """Its tokens are texts, each of them there once, and at least one that was asked for is among them."""
    tokens, _ = _table(build(component))
    strange = [token for token in tokens if not isinstance(token, str)]
    assert not strange, f"{strange[0]!r} is not a text"
    twice = [token for token, count in Counter(tokens).items() if count > 1]
    assert not twice, f"tokens are there more than once: {', '.join(twice[:5])}"
    _known(tokens)


def check_embedding_has_a_vector_for_each_token(component: Component) -> None:
    """There is one vector of finite numbers for each token, [tokens, size], whatever the model's width."""
    embedding = build(component)
    for width in (WIDTH, 1, 64):
        tokens, vectors = _table(embedding, width=width)
        assert isinstance(vectors, Tensor), f"the vectors are a {type(vectors).__name__}, not a torch.Tensor"
        shape = list(vectors.shape)
        assert vectors.dim() == 2 and shape[0] == len(tokens), (
            f"{len(tokens)} tokens, but the vectors have the shape {shape}"
        )
        assert shape[1] > 0, "the vectors have no numbers"
        assert vectors.is_floating_point(), f"the vectors are {vectors.dtype}, which cannot be trained"
        finite(vectors, "a vector")


def check_embedding_says_whether_it_is_trained(component: Component) -> None:
    """``trainable`` is true or false."""
    trainable = build(component).trainable
    assert isinstance(trainable, bool), f"trainable is {trainable!r}"


def check_embedding_depends_on_the_seed_alone(component: Component) -> None:
    """With torch's generator in the same state it gives the same bits: a second time, and in a new instance."""
    embedding = build(component)
    first = _table(embedding)
    first = list(first[0]), first[1].clone()
    _same_table(first, _table(embedding), "asked a second time")
    _same_table(first, _table(build(component)), "made anew")


def check_embedding_changes_nothing(component: Component) -> None:
    """It leaves the list of tokens as it is, and hands out vectors that may be trained without harm to the next."""
    embedding = build(component)
    tokens = list(TOKENS)
    names, vectors = _table(embedding, tokens)
    assert tokens == list(TOKENS), "the list of tokens that it was given has changed"
    kept = list(names), vectors.detach().clone()
    with torch.no_grad():
        vectors += 1  # as training would
    _same_table(kept, _table(embedding), "asked again after training on what it gave")


def check_embedding_takes_one_token(component: Component) -> None:
    """A vocabulary of a single token is enough."""
    embedding = build(component)
    known = _known(_table(embedding)[0])
    tokens, vectors = _table(embedding, (known,))
    assert known in tokens, f"'{known}' has a vector among others but not alone"
    assert len(vectors) == len(tokens), f"{len(tokens)} tokens, but {len(vectors)} vectors"
