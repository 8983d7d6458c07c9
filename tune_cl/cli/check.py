"""Before a search: check of its space and cost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trainables.core.prose import counted
from tune_cl.check_space import SpaceCheck, check_space
from tune_cl.cli import Command
from tune_cl.cli.options import add_objective, add_overrides, add_space, objective_option
from tune_cl.cli.tables import short, table
from tune_cl.experiment.experiment import PLAIN
from tune_cl.experiment.load import SpaceOptions, requested_experiment
from tune_cl.experiment.search_parts import ArmPlan
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS
from tune_cl.space.space_files import on_a_line
from tune_cl.space.wording import DEFAULT, OF_CURRICULUM, PLAIN_TRAINING


class CheckCommand(Command):
    """Examples:
      tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
      tune-cl check space.yaml --objective own.py:train

    Validates a search space without searching, and measures its cost by a few steps on this machine. Steps
    of a training function of your own are not measured."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_space(parser)
        add_overrides(parser)
        add_objective(parser)

    def execute(self, options: Namespace) -> SpaceCheck:
        given = SpaceOptions(**SpaceOptions.given(options))
        experiment = requested_experiment(options.space, given, options.overrides, objective_option(options))
        return check_space(experiment)

    def render(self, document: SpaceCheck) -> str:
        rows = {topic: text for topic, text in _by_topic(document).items() if text}
        return table([f"space {document.space}", ""], rows.items())


def _by_topic(check: SpaceCheck) -> dict[str, str]:
    """What was found in words, by topic."""
    some = [f"{check.conditional} conditional"] if check.conditional else []
    some += ["continuous"] if check.combinations is None else [f"{check.combinations:,} combinations"]
    shown = {key: value for key, value in check.baseline.items() if not _tells_nothing(check, key)}
    baseline = ", ".join(f"{key} {_value(value)}" for key, value in shown.items())
    return {
        "trains": f"{', '.join(check.rankers)} on {check.data or 'its own data'}, for {check.metric} on dev",
        "searches": f"{counted(check.parameters, 'key')} ({', '.join(some)})",
        "searcher": f"{check.searcher}: {SEARCHERS.entries[check.searcher].summary}",
        "tries first": counted(check.points, "published curriculum", "published curricula") if check.points else "",
        "trials": f"{check.trials}, of at most {counted(check.max_iterations, 'iteration')} each",
        "plain trials": _plain(check.arms[PLAIN], check.plain),
        DEFAULT: f"{baseline or 'as the configuration is by default'}; the first trial, never stopped early",
        "scheduler": _scheduler(check),
        "iterations": f"{check.iterations_at_most:,} at most",
        "teacher": _before(check.teacher_iterations, ": one more training, which a scoring needs"),
        "pre-training": _before(check.pretraining_iterations),
        "time here": _time_here(check),
        "GPU": f"at most {check.gpu_hours_at_most:.3g} hours" if check.gpu_hours_at_most else "",
    }


def _plain(arm: ArmPlan, plain: str) -> str:
    """How the opponent is tuned. `plain`: what it is."""
    if arm.trials < 2:
        return f"{DEFAULT}, alone: {plain} is not tuned"
    named = "" if plain == PLAIN_TRAINING else f" with {plain}"
    return f"{arm.trials} of them{named}, over {', '.join(arm.opened)}"


def _tells_nothing(check: SpaceCheck, key: str) -> bool:
    """Whether a key only turns off curricula that no trial has."""
    return key.startswith(OF_CURRICULUM) and not check.over_curricula


def _value(value: object) -> str:
    return short(value) if isinstance(value, float) else on_a_line(value)


def _scheduler(check: SpaceCheck) -> str:
    summary = SCHEDULERS.entries[check.scheduler].summary
    text = f"{check.scheduler}: {summary.replace('reduction_factor', format(check.reduction_factor, 'g'))}"
    if rungs := check.rungs:
        text += f"; {'rungs at iterations' if len(rungs) > 1 else 'a rung at iteration'} {', '.join(map(str, rungs))}"
    return text + (f"; each trial is compared {check.judged}" if check.judged else "")


def _before(iterations: int, what: str = "") -> str:
    return f"at most {counted(iterations, 'iteration')} before the first trial{what}" if iterations else ""


def _time_here(check: SpaceCheck) -> str:
    together, seconds = f"{check.at_a_time} at a time", check.seconds_per_iteration
    if seconds is None or check.hours_at_most is None:
        return f"not measured, {together}"
    return f"at most {_time(check.hours_at_most)} without start-up, {together}, {seconds:.3g} s an iteration"


def _time(hours: float) -> str:
    if hours >= 2:
        return f"{hours:.1f} hours"
    return f"{hours * 60:.0f} min" if hours * 60 >= 2 else f"{hours * 3600:.0f} s"
