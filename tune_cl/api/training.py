"""One training from Python: `tune_cl.train`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainables.config.task_fit import require_usable
from trainables.core.errors import Interrupted
from trainables.core.files import require_folder
from trainables.core.plugins import Names, load_plugins
from trainables.data import require_source
from trainables.data.forms.frames import Data, as_source
from tune_cl.api.rankers import Ranker, load_ranker
from tune_cl.api.session import working
from tune_cl.experiment.load import Overrides, SpaceSource, load_training_run, parse_overrides
from tune_cl.experiment.paths import absolute
from tune_cl.run_training import TrainingFacts, default_output, train_and_rank


@dataclass(frozen=True, kw_only=True)
class TrainedRun(TrainingFacts):
    """A training that has ended, with a field for each of `tune-cl train --json`, which `document` is. `folder` holds
    its ranker, run and state."""

    folder: Path

    @cached_property
    def ranker(self) -> Ranker:
        """The ranker with the weights that were best on dev."""
        return load_ranker(self.checkpoint)


def train(
    space: SpaceSource | None = None,
    data: Data = None,
    ranker: str | None = None,
    overrides: Overrides | None = None,
    output: str | Path | None = None,
    progress: bool = True,
    plugins: Names = (),
    test: bool = False,
) -> TrainedRun:
    """Trains one configuration, without a search and without Ray, and ranks dev by the best weights.

    space         a shipped space's name, a YAML file or a mapping to start from; ranges give the baseline's values
    data, ranker  in place of the space's; `data` may be tables, as for `tune_cl.run`
    overrides     dotted keys with their values
    output        the folder for the ranker, its run and its state; by default one for each configuration
    progress      False: nothing is printed
    plugins       files and modules with parts of one's own, one or several
    test          whether to rank and evaluate test instead of dev; later verdicts on these queries then say that they
                  were read before

    The same call goes on with a training that was stopped. Raises ConfigError or DataError before the training begins,
    WorkFailed if the loss is no longer a number, Interrupted (a KeyboardInterrupt) when stopped.
    """
    load_plugins(plugins)
    overrides = parse_overrides(overrides or {})
    with working(progress):
        run = load_training_run(space, overrides, as_source(data), ranker)
        require_source(run.data.source)
        require_usable(run)
        folder = default_output(run) if output is None else Path(output)
        source = absolute("data.source", run.data.source)  # so that the ranker finds its data from any folder
        run = run.model_copy(update={"data": run.data.model_copy(update={"source": source})})
        require_folder("--output", folder)
        try:
            return TrainedRun(folder=folder, **vars(train_and_rank(run, folder, overrides, test)))
        except KeyboardInterrupt:
            message = "stopped; saved iterations are kept. The same call of tune_cl.train goes on"
            raise Interrupted(message) from None
