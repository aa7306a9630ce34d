"""Names of contenders: an encoder's, or an encoder's and a variant's, as in ``crvnn-hard``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from crvnn_core import Catalog, CrvnnError, UnknownNameError
from crvnn_core.errors import nearest

#: The encoder whose variants are listed; any other is named the same way.
CRVNN = "crvnn"
#: What differs in each variant of an encoder.
VARIANTS = {
    "checkpointed": "with activation checkpointing: each step is recomputed in the backward pass",
    "torch": "without native kernels",
    "plain": "without shortcuts: every position is kept, and the cell runs on all of them",
    "self-training": "trained by the objective 'self-training': sampled trees, composition along the best",
    "hard": "hard inference: n - 1 compositions along one tree",
    "dense": "the paper's formulation: n x n matrices, every position, until the last sequence halts",
    "dense-retriever": "with n x n matrices in its retriever",
}
#: Variants that may be named without their encoder: then it is the one that has the weights.
ALONE = ("dense", "dense-retriever")
#: Variants that cannot be trained.
INFERENCE_ONLY = frozenset({"hard"})
#: Variants that differ in training alone.
TRAINING_ONLY = frozenset({"self-training"})


@frozen
class Name:
    """A contender's name, taken apart."""

    #: Empty for the encoder that has the weights.
    encoder: str
    #: Empty for the encoder as it is.
    variant: str = ""


def read_name(text: str, encoders: Collection[str]) -> Name | None:
    """The encoder and the variant that a contender's name stands for; ``None`` if it stands for nothing.

    :param encoders: the names of installed encoders.
    """
    if text in ALONE:
        return Name("", text)
    if text in encoders:
        return Name(text)
    for variant in VARIANTS:
        encoder = text.removesuffix(f"-{variant}")
        if encoder != text and encoder in encoders:
            return Name(encoder, variant)
    return None


def known_contenders(catalog: Catalog) -> dict[str, str]:
    """The contenders to choose from, each with a summary: installed encoders, and the variants of ``crvnn``."""
    encoders = {name: offer.component.summary for name, offer in catalog.components["encoder"].items()}
    first = {CRVNN: encoders.pop(CRVNN)} if CRVNN in encoders else {}
    variants = {name if name in ALONE else f"{CRVNN}-{name}": text for name, text in VARIANTS.items()}
    return first | variants | encoders


def check_contenders(names: Sequence[str], catalog: Catalog, training: bool) -> list[str]:
    """The names without repetitions; an error for one that is unknown, or that cannot be trained but should be."""
    for text in names:
        name = read_name(text, catalog.components["encoder"])
        if name is None:
            known = known_contenders(catalog)
            raise UnknownNameError(
                f"no contender is called '{text}'.{nearest(text, known)} Contenders: {', '.join(known)}. "
                f"Other encoders have variants, too: ENCODER-VARIANT, as in '{CRVNN}-hard'."
            )
        if training and name.variant in INFERENCE_ONLY:
            raise CrvnnError(f"{text} is inference only; leave it out, or measure --work forward")
        if not training and name.variant in TRAINING_ONLY:
            raise CrvnnError(f"{text} differs in training only; leave it out, or measure --work train")
    return list(dict.fromkeys(names))
