"""Which values are refused beside which others: a row for each rule, a table for each kind of ranker and of data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from trainables.config.keys import EvaluationConfig, TrainingConfig, TrainingRun, dotted_keys, ranker_problems
from trainables.core.errors import ConfigError, Problem
from trainables.core.validation import problems_of
from trainables.curriculum.difficulty_file import no_file
from trainables.curriculum.scoring import NO_RUN, SCORINGS
from trainables.curriculum.weighting import OF_DIFFICULTY, WEIGHTINGS
from trainables.data.columns import Task
from trainables.evaluation.metrics import ACCURACY
from trainables.rankers import RANKERS, Reads
from trainables.training.losses import LOSSES, class_losses

Facts = TypeVar("Facts")
NAMED = re.compile(r"\{([\w.]+)\}")  # in a rule's texts: a key, or one of its words


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    """A combination of values that is refused.

    key      the key whose value is wrong
    refused  whether this value of the key is wrong beside the others
    wrong    what is wrong; {KEY} stands for the value of a key, {WORD} for one of `words`
    right    what would be right, written likewise; a function where registries have it, which plug-ins extend
    words    what the texts say that is not a value of a key
    """

    key: str
    refused: Callable[[Any, Facts], object]
    wrong: str
    right: str | Callable[[], str]
    words: Mapping[str, Callable[[Facts], object]] = field(default_factory=dict)

    def texts(self, said: Callable[[str], str]) -> list[str]:
        """`wrong` and `right`; `said` gives what stands there for a KEY or WORD."""
        right = self.right if isinstance(self.right, str) else self.right()
        return [NAMED.sub(lambda found: said(found[1]), text) for text in (self.wrong, right)]


def check(rules: Iterable[Rule[Facts]], facts: Facts, section: str = "") -> Iterator[Problem]:
    """A Problem for each rule that the facts break, in the table's order. `section`: the beginning of all keys, where
    `facts` is that section."""
    for rule in rules:
        if rule.refused(value_at(facts, rule.key.removeprefix(section)), facts):
            yield Problem(rule.key, *rule.texts(partial(_said, rule, facts, section)))


def _said(rule: Rule[Facts], facts: Facts, section: str, name: str) -> str:
    value = rule.words[name](facts) if name in rule.words else value_at(facts, name.removeprefix(section))
    return f"{value:g}" if isinstance(value, float) else str(value)


def value_at(facts: object, key: str) -> Any:
    """The value at a dotted key of a tree of objects, mappings and tuples; None where the tree has no such key."""
    for part in key.split("."):
        if isinstance(facts, tuple):
            facts = facts[int(part)]
        else:
            facts = facts.get(part) if isinstance(facts, Mapping) else getattr(facts, part, None)
    return facts


def is_set(value: object, _: object) -> bool:
    return bool(value)


def is_named(name: str, _: object) -> bool:
    return name != "none"


def is_reversed(ranks: tuple[int, int] | None, _: object) -> bool:
    return ranks is not None and ranks[0] > ranks[1]


def embeds(run: TrainingRun) -> bool:
    return RANKERS[run.ranker["name"]].settings.embeds


def embedding_rankers() -> str:
    return "ranker " + ", ".join(name for name, kind in RANKERS.items() if kind.settings.embeds)


def smoothing_losses() -> list[str]:
    return [name for name, loss in LOSSES.items() if "label_smoothing" in loss.needs]


def classifying_rankers() -> str:
    return ", ".join(name for name, kind in RANKERS.items() if kind.settings.classifies and kind.reads == "texts")


def staged_rankers() -> str:
    return " or ".join(name for name, kind in RANKERS.items() if kind.staged)


def ranking_losses() -> str:
    return f"one of {', '.join(name for name, loss in LOSSES.items() if loss.kind != 'classification')}"


def scorings_of_classes() -> str:
    return f"one of {', '.join(name for name, scoring in SCORINGS.items() if not scoring.unfit)}"


# fmt: off
# One or two lines a rule, where the formatter would take five.
Rules = tuple[Rule[TrainingRun], ...]

ANY_RANKER: Rules = (
    Rule("curriculum.file",
         lambda file, run: run.curriculum.reads_scoring and run.curriculum.scoring == "file" and file is None,
         no_file(None).wrong, no_file(None).right),
)
VECTORS: Rules = (
    Rule("evaluation.retrieve", lambda depth, run: depth and not embeds(run),
         "{ranker.name} has no vectors of texts to search a collection by", lambda: f"null, or {embedding_rankers()}"),
    Rule("training.in_batch_negatives", lambda shared, run: shared and not embeds(run),
         "{ranker.name} scores each document with its own query only", lambda: f"false, or {embedding_rankers()}"),
    Rule("training.in_batch_negatives",
         lambda shared, run: shared and embeds(run) and run.training.loss != "softmax",
         "loss {training.loss} does not compare a query with the documents of others", "false, or loss softmax"),
)
NETWORK: Rules = (
    Rule("curriculum.subset", is_named, "{ranker.name} is not trained on a subset first",
         lambda: f"curriculum.pacing or curriculum.weighting, or ranker.name: {staged_rankers()}"),
    Rule("training.negatives",
         lambda number, run: LOSSES[run.training.loss].kind == "listwise" and not isinstance(number, int),
         "'{training.negatives}' makes no lists, which loss {training.loss} reads",
         "a number of negatives in each list, e.g. 7"),
    Rule("training.label_smoothing", lambda share, run: share and run.training.loss not in smoothing_losses(),
         "loss {training.loss} has no distribution of labels to smooth",
         lambda: f"0, or loss {' or '.join(smoothing_losses())}"),
    Rule("training.negative_ranks", is_reversed,
         "{training.negative_ranks.0} is above {training.negative_ranks.1}",
         "e.g. [{training.negative_ranks.1}, {training.negative_ranks.0}]"),
    Rule("training.pretrain_data", lambda data, run: data and run.training.reads_teacher,
         "a loss or negatives by a teacher cannot be pre-trained: the teacher knows the target's data only",
         "null, or another loss and hard_negatives"),
    *VECTORS,
    Rule("curriculum.negatives.schedule",
         lambda name, run: name in ("ranks", "sources") and not run.training.draws_hard_negatives,
         "'{curriculum.negatives.schedule}' ends at hard negatives, and training.* draws none",
         "training.hard_negatives: first_stage or teacher, and training.negatives: a number"),
    Rule("curriculum.negatives.schedule",
         lambda name, run: name == "groups" and not LOSSES[run.training.loss].by_groups,
         "'groups' is of loss cl_drd, and the loss is {training.loss}", "training.loss: cl_drd"),
    Rule("curriculum.negatives.start", is_reversed,
         "{curriculum.negatives.start.0} is above {curriculum.negatives.start.1}",
         "e.g. [{curriculum.negatives.start.1}, {curriculum.negatives.start.0}]"),
)
A_NETWORK = "a ranker that is a network over texts"
FEATURES: Rules = (
    *VECTORS,
    Rule("training.label_smoothing", is_set, "{ranker.name} has no distribution of labels to smooth",
         f"0, or {A_NETWORK}"),
    Rule("training.pretrain_data", is_set, "{ranker.name} starts from no weights", f"null, or {A_NETWORK}"),
)
OF_READERS: Mapping[Reads, Rules] = {"texts": NETWORK, "features": FEATURES}
TO_RANK: Rules = (
    Rule("training.loss", lambda loss, run: run.reads == "texts" and LOSSES[loss].kind == "classification",
         "'{training.loss}' learns classes, and the data is documents to rank", ranking_losses),
)
TO_CLASSIFY: Rules = (
    Rule("ranker.name", lambda name, _: not RANKERS[name].settings.classifies,
         "{ranker.name} only ranks, and the data is pairs to classify", classifying_rankers),
    Rule("metric", lambda metric, _: metric != ACCURACY,
         "'{metric}' judges rankings, and the data is pairs to classify", ACCURACY),
    Rule("training.loss", lambda loss, _: loss not in class_losses(),
         "'{training.loss}' learns to rank, and the data is pairs to classify", lambda: " or ".join(class_losses())),
    Rule("training.negatives", lambda negatives, _: negatives != TrainingConfig().negatives,
         "pairs to classify have no negatives", "leave it out"),
    Rule("training.hard_negatives", lambda _, run: run.training.draws_hard_negatives,
         "pairs to classify have no negatives", "leave it out"),
    Rule("evaluation.relevance_level", lambda _, run: run.evaluation != EvaluationConfig(),
         "a class is not more or less relevant", "leave it out"),
    Rule("curriculum.weighting", lambda name, _: WEIGHTINGS[name] is not None,
         f"'{{curriculum.weighting}}' {NO_RUN}", f"one of none, {', '.join(sorted(OF_DIFFICULTY))}"),
    Rule("curriculum.scoring", lambda name, run: run.curriculum.reads_scoring and SCORINGS[name].unfit,
         "'{curriculum.scoring}' {reason}", scorings_of_classes,
         {"reason": lambda run: SCORINGS[run.curriculum.scoring].unfit}),
    Rule("curriculum.negatives.schedule", is_named, "pairs to classify have no negatives", "none"),
    Rule("curriculum.objective_switch", is_named,
         "'{curriculum.objective_switch}' learns to rank, and the data is pairs to classify", "none"),
)
# fmt: on


def rules_by_holder() -> dict[str, Rules]:
    """All tables, by what they hold for."""
    return {
        "any ranker": ANY_RANKER,
        "a ranker over texts": NETWORK,
        "a ranker over features": FEATURES,
        **{f"ranker {name}": kind.rules for name, kind in RANKERS.items() if kind.rules},
        "data to rank": TO_RANK,
        "pairs to classify": TO_CLASSIFY,
    }


def misfits(run: TrainingRun) -> list[Problem]:
    """A Problem for each key that the kind of ranker cannot follow, or that contradicts another."""
    return list(check([*run.kind.rules, *OF_READERS[run.reads]], run))


def task_misfits(run: TrainingRun, task: Task) -> list[Problem]:
    """A Problem for each key that does not fit the data's task."""
    return list(check(TO_CLASSIFY if task == "classification" else TO_RANK, run))


def validated(tree: Mapping[str, Any]) -> TrainingRun:
    """The training that a nested mapping describes; raises ConfigError with every problem in it."""
    problems = ranker_problems(tree["ranker"]) if "ranker" in tree else []
    try:
        run = TrainingRun.model_validate({key: value for key, value in tree.items() if key != "ranker" or not problems})
    except ValidationError as error:
        raise ConfigError([*problems, *problems_of(error, dotted_keys(TrainingRun))]) from None
    problems = [*problems, *check(ANY_RANKER, run)]
    if problems := problems or misfits(run):
        raise ConfigError(problems)
    return run
