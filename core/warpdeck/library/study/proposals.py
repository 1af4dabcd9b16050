"""Optuna's part of a study: it proposes parameters, and says which running trials are hopeless.

Its study is in memory and holds nothing that the record of jobs does not. A new driver gives it all trials again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError

from .study_file import Choice, Parameter, Range, Study
from .trials import Trial, TrialState

if TYPE_CHECKING:
    import optuna


class Proposals:
    """The proposals for one study. Raises UserError without Optuna."""

    def __init__(self, study: Study) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UserError("studies need the package optuna", "run `pip install optuna`") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._metric = study.metric
        self._space = {name: self._distribution(each) for name, each in study.parameters.items()}
        samplers = optuna.samplers
        sampler: Any = (
            samplers.TPESampler(seed=study.seed, constant_liar=True)
            if study.sampler == "tpe"
            else samplers.RandomSampler(seed=study.seed)
        )
        pruners: dict[str, Any] = {
            "asha": optuna.pruners.SuccessiveHalvingPruner(),
            "median": optuna.pruners.MedianPruner(),
            "none": optuna.pruners.NopPruner(),
        }
        self._study = optuna.create_study(
            direction=study.direction, sampler=sampler, pruner=pruners[study.pruner]
        )
        self._open: dict[int, optuna.Trial] = {}
        self._told: set[int] = set()
        self._reported: dict[int, int] = {}

    def propose(self, number: int) -> dict[str, Choice]:
        """Return the parameters of a new trial."""
        trial = self._open[number] = self._study.ask(self._space)
        return dict(trial.params)

    def withdraw(self, number: int) -> None:
        """Forget a proposal that was not submitted."""
        self._study.tell(self._open.pop(number), state=self._optuna.trial.TrialState.FAIL)

    def follow(self, trials: list[Trial]) -> list[Trial]:
        """Take over the trials as they are now. Returns the open ones that should end early."""
        hopeless = []
        for trial in trials:
            if trial.number in self._told:
                continue
            if trial.number not in self._open:
                self._restore(trial)
            mine = self._open[trial.number]
            for step, value in trial.steps:
                if step > self._reported.get(trial.number, -1):
                    mine.report(value, step)
                    self._reported[trial.number] = step
            if trial.state == TrialState.OPEN:
                if trial.steps and mine.should_prune():
                    hopeless.append(trial)
            else:
                self._tell(trial)
        return hopeless

    def _restore(self, trial: Trial) -> None:
        """Add a trial of an earlier driver, or of another one."""
        self._study.enqueue_trial(dict(trial.params))
        self._open[trial.number] = self._study.ask(self._space)

    def _tell(self, trial: Trial) -> None:
        states = self._optuna.trial.TrialState
        mine = self._open.pop(trial.number)
        self._told.add(trial.number)
        if trial.state == TrialState.COMPLETE and trial.value is not None and math.isfinite(trial.value):
            self._study.tell(mine, trial.value)
        else:
            self._study.tell(mine, state=states.PRUNED if trial.state == TrialState.PRUNED else states.FAIL)

    def _distribution(self, parameter: Parameter) -> Any:
        kinds = self._optuna.distributions
        if not isinstance(parameter, Range):
            return kinds.CategoricalDistribution(parameter)
        if parameter.is_whole:
            low, high = int(parameter.low), int(parameter.high)
            return kinds.IntDistribution(low, high, log=parameter.log, step=int(parameter.step or 1))
        return kinds.FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)
