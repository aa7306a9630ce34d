"""The embedding ``torchtext``: pretrained word vectors that torchtext downloads."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from crvnn_core.annotations import CountOrZero, FilePath
from crvnn_core.errors import CrvnnError
from crvnn_parts.embeddings import Pretrained, Vectors
from crvnn_torchtext.library import first_line, guarded, staging, torchtext


class TorchTextVectors(Pretrained):
    """Pretrained word vectors by torchtext's name for them, downloaded on first use.

    A token without a vector gets the vector of the unknown token. ``charngram.100d`` computes a vector from a token's
    character n-grams, so it has no word list from which ``more`` words could be added.

    :param vectors: torchtext's name of the vectors.
    :param cache: the directory of torchtext's downloads.
    :param trainable: whether the vectors are fine-tuned.
    :param more: how many words to add to the task's tokens, so that a trained model knows words that are not in the
        training data: the first in the file, which in published files are the most frequent.
    """

    def __init__(
        self,
        vectors: Literal[
            "charngram.100d",
            "fasttext.en.300d",
            "fasttext.simple.300d",
            "glove.42B.300d",
            "glove.840B.300d",
            "glove.twitter.27B.25d",
            "glove.twitter.27B.50d",
            "glove.twitter.27B.100d",
            "glove.twitter.27B.200d",
            "glove.6B.50d",
            "glove.6B.100d",
            "glove.6B.200d",
            "glove.6B.300d",
        ],
        cache: FilePath = ".vector_cache",
        trainable: bool = False,
        more: CountOrZero = 20_000,
    ) -> None:
        super().__init__(vectors, trainable, more)
        self.cache = Path(cache).expanduser()

    def find(self, tokens: Collection[str]) -> tuple[Vectors, Vectors]:
        loaded = self._load()
        if self.source.startswith("charngram"):
            made = {token: loaded[token][0].numpy() for token in tokens}
            return {token: vector for token, vector in made.items() if vector.any()}, {}
        numbers: dict[str, int] = loaded.stoi
        others = islice((word for word in numbers if word and word not in tokens), self.more)
        rows = loaded.vectors.numpy()
        return (
            {token: rows[numbers[token]] for token in tokens if token in numbers},
            {word: rows[numbers[word]] for word in others},
        )

    def _load(self) -> Any:
        """torchtext's ``Vectors`` object, from the cache or else downloaded."""
        text = torchtext()
        load = text.vocab.pretrained_aliases[self.source]
        try:
            with guarded(text):
                if (self.cache / f"{self._file}.pt").is_file():
                    return load(cache=str(self.cache))
                with staging(
                    self.cache, keep=lambda name: name == self._file or _is_archive(name)
                ) as directory:
                    return load(cache=str(directory))
        except Exception as error:  # torchtext is unmaintained and raises all kinds of errors
            raise CrvnnError(
                f"torchtext could not load '{self.source}' from {self.cache}: {first_line(error)}\n"
                "  If a file there is damaged, delete it, and it is downloaded again. If you have the vectors as a "
                "text file, the embedding 'glove' reads it."
            ) from error

    @property
    def _file(self) -> str:
        """The name of the text file in torchtext's cache."""
        kind, _, rest = self.source.partition(".")
        names = {"charngram": "charNgram.txt", "fasttext": f"wiki.{rest.partition('.')[0]}.vec"}
        return names.get(kind, f"{self.source}.txt")


def _is_archive(name: str) -> bool:
    return name.endswith((".zip", ".gz"))
