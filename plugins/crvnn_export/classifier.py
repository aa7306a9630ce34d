"""A trained model from token numbers and lengths to logits: what is exported, and what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from crvnn_core.errors import CrvnnError
from crvnn_core.host.catalog import Catalog
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.trained import Trained
from crvnn_core.model.batch import PADDING, RESERVED, UNKNOWN, Batch, Tokens
from crvnn_core.model.model import Model

#: Batch size and length of the random inputs that a written file is tried on.
SHAPES = ((2, 5), (1, 1), (1, 9), (3, 2), (4, 17), (6, 40))


class Classifier(nn.Module):
    """Token numbers [B, n] and lengths [B], for each sequence of an example, to logits [B, classes]."""

    def __init__(self, model: Model, encoder: nn.Module) -> None:
        super().__init__()
        self.embed, self.project, self.head = model.embed, model.project, model.head
        self.encoder = encoder

    def forward(self, *inputs: Tensor) -> Tensor:
        vectors = []
        for ids, lengths in zip(inputs[::2], inputs[1::2], strict=True):
            mask = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)
            vectors.append(self.encoder(self.project(self.embed(ids)), mask))
        logits: Tensor = self.head(*vectors)
        return logits


@frozen
class Exportable:
    """A trained model and how it is to be exported."""

    trained: Trained
    hard: bool
    depth: int | None

    @classmethod
    def of(
        cls, trained: Trained, catalog: Catalog, *, hard: bool = False, depth: int | None = None
    ) -> Exportable:
        """Refuses what the encoder does not offer. With ``depth``, no sequence takes more steps than that."""
        name = trained.spec.model.encoder.name
        if hard and depth is not None:
            raise CrvnnError(
                "hard inference of n tokens takes up to n - 1 steps, so its depth cannot be fixed: "
                "choose '--hard' or '--depth'"
            )
        trained.expect_hard_inference(hard)
        if depth is not None:
            settings = trained.spec.model.encoder.params
            if "max_steps" not in settings:
                raise CrvnnError(
                    f"the encoder '{name}' has no depth that could be fixed; leave out '--depth'"
                )
            steps = min(depth, settings["max_steps"] or depth)
            trained = exchange_parts(trained, catalog, sets=[f"model.encoder.max_steps={steps}"])
        return cls(trained, hard, depth)

    def module(self) -> Classifier:
        """What torch traces."""
        model = self.trained.model
        try:
            encoder = model.encoder.traceable(hard=self.hard, depth=self.depth)
        except CrvnnError as error:
            name = self.trained.spec.model.encoder.name
            raise CrvnnError(f"the encoder '{name}' cannot be exported: {error}") from None
        return Classifier(model, encoder).eval()

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return [
            f"{kind}{end}" for end in ("", "_2")[: self.trained.task.arity] for kind in ("tokens", "lengths")
        ]

    def inputs(self, batch: int, length: int) -> list[Tensor]:
        """Random inputs: token numbers, also unknown ones and such as lie beyond the end, and lengths."""
        found = []
        for _ in range(self.trained.task.arity):
            ids = torch.randint(UNKNOWN, len(self.trained.model.vocabulary), (batch, length))
            lengths = torch.randint(1, length + 1, (batch,))
            lengths[0] = length
            found += [ids, lengths]
        return found

    def trials(self) -> Iterator[tuple[list[Tensor], Tensor]]:
        """Random inputs of several shapes, and the logits that the model itself gives; the same in every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            inputs = [self.inputs(*shape) for shape in SHAPES]
        for each in inputs:
            yield each, self.expected(each)

    @torch.no_grad()
    def expected(self, inputs: list[Tensor]) -> Tensor:
        """The logits of the model, computed as 'crvnn predict' does."""
        sequences = tuple(
            Tokens(ids, torch.arange(ids.shape[1]) < lengths.unsqueeze(1))
            for ids, lengths in zip(inputs[::2], inputs[1::2], strict=True)
        )
        batch = Batch(sequences, torch.zeros(len(inputs[0]), dtype=torch.long))
        return self.trained.model(batch, hard=self.hard).logits

    def description(self) -> dict[str, Any]:
        """What a program needs to know to use the file, for its metadata."""
        from importlib.metadata import version

        return {
            "crvnn": version("crvnn"),
            "task": self.trained.spec.task.name,
            "inference": "hard" if self.hard else "soft",
            "depth": self.depth,
            "inputs": self.names,
            "classes": list(self.trained.task.classes),
            "padding": PADDING,
            "unknown": UNKNOWN,
            "first_token": RESERVED,
            "tokens": list(self.trained.model.vocabulary.tokens),
        }
