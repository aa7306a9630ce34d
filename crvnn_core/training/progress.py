"""How far training has come, and what follows from it: the learning rate, the best weights, early stopping."""

from __future__ import annotations

import math

from attrs import define

from crvnn_core.runs.results import Score
from crvnn_core.spec import TrainingSpec


@define
class Position:
    """How far training has come. Every checkpoint holds these values under these names."""

    epoch: int = 0
    batch: int = 0  # index of the next batch of the epoch
    step: int = 0  # optimizer steps taken
    best: float | None = None  # of the watched measure; larger is better
    best_loss: float = math.inf  # of the same evaluation: it decides between equal accuracies
    best_step: int = 0
    stale: int = 0  # evaluations since the best one
    plateau: int = 0  # evaluations since the last clear improvement or the last halving of the learning rate
    clear_best: float | None = None  # the last value that was better by more than the spec's threshold
    halvings: int = 0  # of the learning rate
    tokens: int = 0  # budget of a forward pass (``data.within_budget``); shrinks when memory runs out
    total: int = 0  # the step at which the stage ends
    limits: tuple[int, int] = (0, 0)  # the spec's epochs and steps that ``total`` was computed from
    stage: int = 0  # from 0; a spec without stages is trained in one
    first_step: int = 0  # steps taken before the stage
    first_epoch: int = 0  # the number of the stage's first epoch

    @property
    def stage_step(self) -> int:
        """Optimizer steps taken in this stage."""
        return self.step - self.first_step

    @property
    def stage_total(self) -> int:
        """Optimizer steps of this stage."""
        return self.total - self.first_step

    def set_total(self, spec: TrainingSpec, batches: int) -> None:
        """Compute ``total``, unless a resumed run has it from the same limits.

        :param batches: of the current epoch; those to come are taken to be as large.
        """
        limits = (spec.epochs, spec.steps)
        if self.total and self.limits == limits:
            return
        totals = [self.first_step + spec.steps] if spec.steps else []
        if spec.epochs:
            left = max(self.first_epoch + spec.epochs - self.epoch, 0)
            totals.append(self.step - self.batch + left * batches)
        self.total, self.limits = min(totals), limits

    def next_stage(self, spec: TrainingSpec) -> Position:
        """The beginning of the next stage, with a new epoch. Steps and epochs go on counting; all else starts anew."""
        epoch = self.epoch + (self.batch > 0)
        return Position(
            epoch=epoch,
            step=self.step,
            best_step=self.step,
            tokens=spec.tokens,
            stage=self.stage + 1,
            first_step=self.step,
            first_epoch=epoch,
        )

    def advance(self, batches: int) -> None:
        """Count a step of an epoch that has so many batches."""
        self.step += 1
        self.batch += 1
        if self.batch == batches:
            self.epoch, self.batch = self.epoch + 1, 0

    def learning_rate_factor(self, spec: TrainingSpec) -> float:
        """What to multiply the optimizer's own learning rates with in the next step: halving, warm-up, annealing."""
        factor: float = 0.5**self.halvings
        if self.stage_step < spec.warmup:
            factor *= (self.stage_step + 1) / spec.warmup
        if spec.anneal:
            factor *= 0.5 * (1 + math.cos(math.pi * self.stage_step / self.stage_total))
        return factor

    def needs_evaluation(self, spec: TrainingSpec) -> bool:
        """Whether the development split is due after the last step: at an interval, or at the end of an epoch."""
        every = spec.evaluate_every
        return self.step == self.total or (self.stage_step % every == 0 if every else self.batch == 0)

    def record(self, score: Score, spec: TrainingSpec) -> bool:
        """Take in a score on the development split; whether it is the best so far.

        Of equal accuracies the one with the lower loss is the better; that moves the best weights only: plateaus and
        early stopping wait for a higher accuracy.
        """
        value = score.accuracy if spec.watch == "accuracy" else -score.loss
        value = value if math.isfinite(value) else -math.inf
        loss = score.loss if math.isfinite(score.loss) else math.inf
        self.plateau += 1
        before = self.best if self.clear_best is None else self.clear_best
        if before is None or value > before * (1 + math.copysign(spec.threshold, before)):
            self.clear_best, self.plateau = value, 0
        self.stale += 1
        if self.best is None or value > self.best:
            self.best, self.stale = value, 0
        elif value < self.best or loss >= self.best_loss:
            return False
        self.best_loss, self.best_step = loss, self.step
        return True

    def halve_on_plateau(self, spec: TrainingSpec) -> bool:
        """Halve the learning rate after ``halve_after`` evaluations on a plateau; whether that was done."""
        if not spec.halve_after or self.plateau < spec.halve_after:
            return False
        self.plateau = 0
        self.halvings += 1
        return True

    def reason_to_stop(self, spec: TrainingSpec) -> str:
        """Why the stage ends here; empty if it goes on."""
        if self.step >= self.total:
            return "done"
        if spec.patience and self.stale >= spec.patience:
            return f"no better since step {self.best_step}"
        return ""
