"""The checks that the parts of a recursion and encoders have in common, and the batch that all are tried on."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve, fields, frozen
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood
from crvnn_core.errors import raised_at
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Encoder
from crvnn_core.testing.common import (
    TOLERANCE,
    WIDTH,
    Check,
    build,
    existences,
    finite,
    gradients_reach,
    padded,
    random,
    same,
)
from crvnn_core.testing.oracles import matrices


@frozen(eq=False)
class Sequences:
    """A batch as any part may be given it: B sequences over n positions."""

    mask: Tensor  # [B, n]
    exists: Tensor  # [B, n]
    vectors: Tensor  # [B, n, d]
    others: Tensor  # [B, n, d] other vectors, for parts that take two
    scores: Tensor  # [B, n]
    left_c: Tensor  # [B, n]

    @classmethod
    def random(cls, exists: Tensor, mask: Tensor) -> Sequences:
        """Random vectors and scores, the same in every run."""
        vectors, others = random(*mask.shape, WIDTH), random(*mask.shape, WIDTH, seed=6)
        return cls(
            mask, exists, vectors, others, 2 * random(*mask.shape), random(*mask.shape, seed=4).sigmoid()
        )

    @property
    def near(self) -> MatrixNeighbourhood:
        """The neighbours by Eq. 5."""
        if self.exists.is_meta:
            columns = self.exists.unsqueeze(1).expand(-1, self.exists.shape[1], -1)
            return MatrixNeighbourhood(columns, columns)
        return matrices(self.exists * self.mask)

    @property
    def eligible(self) -> Tensor:
        """All tokens but the last one [B, n]."""
        return self.mask & pad(self.mask[:, 1:], (0, 1))

    def each(self, change: Callable[[Tensor], Tensor]) -> Sequences:
        """With every tensor changed."""
        return Sequences(*(change(getattr(self, own.name)) for own in fields(Sequences)))

    def alone(self, row: int) -> Sequences:
        """One sequence, without padding."""
        n = int(self.mask[row].sum())
        return self.each(lambda values: values[row : row + 1, :n])


def sequences() -> Sequences:
    """The batch of the checks: a full sequence, one of a single token, and a padded one."""
    mask = padded()
    return Sequences.random(existences(mask), mask)


class Modules:
    """How the modules of a slot are built and used by the checks that several slots share: subclass it."""

    slot: str
    #: Shared checks that mean nothing for the slot.
    without: tuple[str, ...] = ()
    #: Whether results are [B, n, ...], not [B, ...].
    by_position = True
    #: Of ``Sequences``: what a module passes gradients to.
    leaves: tuple[str, ...] = ()
    #: What stands under padding in place of vectors and scores to see whether it matters.
    padding = 9.0
    #: What to do if positions with e = 0 count.
    advice = "see other positions through 'near' alone, and weigh sums over a row by 'exists'"
    #: By how much results may differ in bfloat16.
    half = 0.0
    #: After how many calls state that a module keeps between calls should show.
    calls = 50

    def run(self, module: Any, batch: Sequences) -> dict[str, Tensor]:
        """What a module makes of sequences, by name."""
        raise NotImplementedError

    def build(self, component: Component, seed: int = 0) -> Any:
        """The module with its example arguments, in evaluation mode."""
        return build(component, seed=seed)

    def loss(self, module: Any, batch: Sequences) -> Tensor:
        """A number that depends on every result: a weighted sum, as a plain one of normalised vectors is constant."""
        results = (values for values in self.run(module, batch).values() if values.is_floating_point())
        weighted = [values * random(values.numel()).view_as(values) for values in results]
        return torch.stack([self.kept(own, batch).sum() for own in weighted]).sum()

    def kept(self, values: Tensor, batch: Sequences) -> Tensor:
        """Results without those of padding."""
        return values[:, : batch.mask.shape[1]][batch.mask] if self.by_position else values

    def checks(self) -> dict[str, Check]:
        """The shared checks, by their names for this slot."""
        found = [self._check(shared) for shared in SHARED if shared.__name__ not in self.without]
        return {check.__name__: check for check in found}

    def _check(self, shared: Callable[[Modules, Component], None]) -> Check:
        def check(component: Component) -> None:
            shared(self, component)

        check.__name__, check.__doc__ = f"check_{self.slot}_{shared.__name__}", shared.__doc__
        return check


def treats_each_sequence_alone(modules: Modules, component: Component) -> None:
    """A sequence gives in a padded batch, whatever its order, what it gives alone."""
    module, batch = modules.build(component), sequences()
    together, turned = (
        modules.run(module, batch),
        modules.run(module, batch.each(lambda values: values.flip(0))),
    )
    for row in range(len(batch.mask)):
        for name, alone in modules.run(module, batch.alone(row)).items():
            part = slice(alone.shape[1]) if modules.by_position else ...
            same(together[name][row][part], alone[0], f"{name} of sequence {row}, in a batch and alone")
            same(
                turned[name].flip(0)[row][part], alone[0], f"{name} of sequence {row}, turned round and alone"
            )


def ignores_padding(modules: Modules, component: Component) -> None:
    """Changing what stands under the mask, and adding padding, change nothing."""
    module, batch = modules.build(component), sequences()

    def changed(values: Tensor, padding: float) -> Tensor:
        return torch.where(batch.mask if values.dim() == 2 else batch.mask.unsqueeze(-1), values, padding)

    other = evolve(
        batch,
        exists=changed(batch.exists, 0.7),
        vectors=changed(batch.vectors, modules.padding),
        scores=changed(batch.scores, 30.0),
    )
    longer = batch.each(lambda values: pad(values, (0, 0) * (values.dim() - 2) + (0, 3)))
    found = modules.run(module, batch)
    for changes, inputs in ((f"other padding ({modules.padding:g})", other), ("more padding", longer)):
        for name, values in modules.run(module, inputs).items():
            got, want = modules.kept(values, batch), modules.kept(found[name], batch)
            same(got, want, f"{name} with {changes}")


def partly_gone() -> tuple[Sequences, list[int]]:
    """Two sequences of 12 positions, in which every third has e = 0 and a high score, and the places of the others."""
    exists = 0.02 + 0.96 * random(2, 12, seed=2).sigmoid()
    exists[:, 1::3] = 0
    batch = Sequences.random(exists, torch.ones_like(exists, dtype=torch.bool))
    batch = evolve(batch, scores=batch.scores + 3.0 * (exists == 0))
    return batch, [place for place in range(12) if place % 3 != 1]


def ignores_positions_that_are_gone(modules: Modules, component: Component) -> None:
    """Taking out positions with e = 0 changes nothing for the others."""
    module, (batch, places) = modules.build(component), partly_gone()
    whole = modules.run(module, batch)
    for name, rest in modules.run(module, batch.each(lambda values: values[:, places])).items():
        what = f"{name} without the positions that have e = 0, which still count; {modules.advice}"
        same(rest, whole[name][:, places], what)


def learns(modules: Modules, component: Component) -> None:
    """In training, gradients reach every parameter, if it has any, and the vectors that it is given."""
    module, batch = modules.build(component).train(), sequences()
    batch.vectors.requires_grad_("vectors" in modules.leaves)
    gradients_reach(module, modules.loss(module, batch))
    if "vectors" in modules.leaves:
        finite(batch.vectors.grad, "the gradient of the vectors")


def has_gradients_of_its_present_weights(modules: Modules, component: Component) -> None:
    """Gradients are right while earlier graphs live and after weights have changed in place."""
    given = {name: getattr(sequences(), name).requires_grad_() for name in modules.leaves}
    batch = evolve(sequences(), **given)

    def gradients(module: Any, loss: Tensor) -> dict[str, Tensor]:
        wanted = {f"'{name}'": p for name, p in module.named_parameters() if p.requires_grad} | given
        found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(wanted, found, strict=True))

    module, held = modules.build(component), []
    for change in range(3):
        held.append(modules.loss(module, batch))
        held[-1].backward(retain_graph=True)  # type: ignore[no-untyped-call]
        with torch.no_grad():  # change the weights in place, as an optimizer does
            for number, weight in enumerate(module.parameters()):
                weight.add_(0.3 * random(weight.numel(), seed=10 * change + number).view_as(weight))
    new = modules.build(component)
    new.load_state_dict(module.state_dict())
    right = gradients(new, modules.loss(new, batch))
    held += [modules.loss(module, batch), modules.loss(module, batch)]
    for loss in held[:-3:-1]:  # of the two graphs of the present weights, the later one first
        for name, gradient in gradients(module, loss).items():
            allowed = TOLERANCE * max(1.0, right[name].abs().max().item())
            what = f"the gradient of {name}, while graphs of earlier weights live,"
            same(gradient, right[name], what, allowed)


class _OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses operations on tensors of several devices, which meta tensors by themselves often let pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.dim() > 0]
        devices = {str(tensor.device) for tensor in tensors}
        if len(devices) > 1:
            raise RuntimeError(f"{func} was given tensors on {' and '.join(sorted(devices))}")
        return func(*args, **(kwargs or {}))


def runs_on_any_device(modules: Modules, component: Component) -> None:
    """Every tensor is made on the device of the input."""
    module = modules.build(component).to("meta")
    mask = torch.ones(2, 5, dtype=torch.bool)
    batch = Sequences.random(existences(mask), mask).each(lambda values: values.to("meta"))
    try:
        with _OneDevice():  # type: ignore[no-untyped-call]
            for training in (False,) if isinstance(module, Encoder) else (True, False):
                for name, values in modules.run(module.train(training), batch).items():
                    assert values.is_meta, f"{name} is on another device than the input"
    except (RuntimeError, NotImplementedError) as error:
        raise AssertionError(
            "fails on the meta device, so it makes a tensor on a device of its own or looks at values: "
            f"{raised_at(error)}"
        ) from error


def works_under_autocast(modules: Modules, component: Component) -> None:
    """Under autocast results are finite and close to those without."""
    module, batch = modules.build(component), sequences()
    exact = modules.run(module, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = modules.run(module, batch)
    for name, values in found.items():
        finite(values, name)
        got, want = (modules.kept(own, batch) for own in (values.float(), exact[name]))
        same(got, want, f"{name} under autocast", modules.half)


def is_deterministic(modules: Modules, component: Component) -> None:
    """In evaluation the same input gives the same bits on every call."""
    module, batch = modules.build(component), sequences()
    first = modules.run(module, batch)
    for number in range(2, modules.calls + 2):
        for name, values in modules.run(module, batch).items():
            what = f"{name} in call {number} with the same input"
            same(
                values, first[name], f"{what}, so it is random in evaluation or keeps state between calls", 0
            )


def can_be_saved(modules: Modules, component: Component) -> None:
    """After use in training, its saved weights give the same bits in another one."""
    one, two, batch = modules.build(component).train(), modules.build(component, seed=9), sequences()
    with torch.no_grad():
        for _ in range(modules.calls):
            modules.run(one, batch)
    file = io.BytesIO()
    torch.save(one.eval().state_dict(), file)
    file.seek(0)
    two.load_state_dict(torch.load(file, weights_only=True))
    want = modules.run(one, batch)
    for name, values in modules.run(two, batch).items():
        what = (
            f"{name}: with its saved weights a copy gives other results, so it keeps state that is not saved "
            "(use register_buffer)"
        )
        same(values, want[name], what, 0)


def has_its_live_settings(modules: Modules, component: Component) -> None:
    """Every name in ``live_settings`` is a parameter that a spec can set."""
    parameters = component.parameters()
    unknown = [name for name in modules.build(component).live_settings or () if name not in parameters]
    assert not unknown, (
        f"live_settings has {', '.join(unknown)}; parameters are {', '.join(parameters) or 'none'}"
    )


#: The checks of this module.
SHARED: tuple[Callable[[Modules, Component], None], ...] = (
    treats_each_sequence_alone,
    ignores_padding,
    ignores_positions_that_are_gone,
    learns,
    has_gradients_of_its_present_weights,
    runs_on_any_device,
    works_under_autocast,
    is_deterministic,
    can_be_saved,
    has_its_live_settings,
)
