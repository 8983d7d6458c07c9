"""The commands: each is a function of `tune_cl` with its arguments as options, and returns that function's result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trainables.core.errors import ConfigError, Problem, UserError

DEFAULT_STORAGE = "./tune_cl_runs"  # as tune_cl.history.search_folder has it, which takes long to import
DATA = "docstrings, ir_datasets:NAME, or a folder in one of the formats of tune-cl list data"
Kind = Literal[
    "rankers", "scorings", "pacings", "weightings", "negatives", "subsets", "losses", "spaces", "data", "baselines",
    "metrics", "searchers", "schedulers", "searches",
]  # fmt: skip


def user_path(text: str) -> Path:
    return Path(text).expanduser()


def file_option(text: str, metavar: str = "FILE") -> Any:
    return typer.Option(help=text, metavar=metavar, parser=user_path)


Split = Literal["train", "dev", "test"]
Space = Annotated[str, typer.Argument(metavar="SPACE", help="a shipped space (tune-cl list spaces) or a YAML file")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="of a search in the storage, as tune-cl run printed it")]
Source = Annotated[str, typer.Argument(metavar="DATA", help=DATA)]
Data = Annotated[str | None, typer.Option(metavar="DATA", help=DATA)]
Ranker = Annotated[str | None, typer.Option(metavar="NAME", help="see tune-cl list rankers")]
Trials = Annotated[int | None, typer.Option(metavar="N", help="trials, of both arms")]
MaxIterations = Annotated[int | None, typer.Option(metavar="N", help="iterations a trial at most")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="of sampling and of every training")]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="a training function of your own: the file is run, and its function called with (config, trial)",
    ),
]
Storage = Annotated[
    str, typer.Option(metavar="FOLDER", help="where searches live; on a cluster, a folder that all nodes see")
]
TrackingUri = Annotated[
    str | None, typer.Option(metavar="URI", help="MLflow (default: $MLFLOW_TRACKING_URI, else a database in --storage)")
]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="of a Ray cluster: auto, or host:port (default: a local Ray)")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="override a configuration key; VALUE is YAML; repeatable"),
]

app = typer.Typer(
    name="tune-cl", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip
FOR_ALL = "Every command takes --json, --debug and --plugin FILE_OR_MODULE, too."
command = app.command(epilog=FOR_ALL)


def _versions(asked: bool) -> None:
    if asked:
        from tune_cl.cli.versions import versions_and_devices

        print(versions_and_devices())
        raise typer.Exit


@app.callback()
def every(
    json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout, all else on stderr")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks")] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE_OR_MODULE", help="a Python file or module with parts of your own; repeatable"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_versions, is_eager=True, help="versions and devices")
    ] = False,
) -> None:
    """tune-cl: test whether a training curriculum improves your ranker."""
    if plugin:
        from trainables.core.plugins import load_plugins

        load_plugins(plugin)


@command
def run(
    space: Space,
    data: Data = None,
    ranker: Ranker = None,
    name: Annotated[
        str | None, typer.Option(help="of the search (default: the space's name, numbered where it is taken)")
    ] = None,
    trials: Trials = None,
    max_iterations: MaxIterations = None,
    seed: Seed = None,
    objective: Objective = None,
    storage: Storage = DEFAULT_STORAGE,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    overrides: Overrides = None,
) -> Any:
    """Search a space of curricula and rankers.

    \b
    tune-cl run quickstart
    tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
    tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs

    tune-cl check forecasts what a search will do and cost; tune-cl resume continues one that was stopped.
    """
    from tune_cl.api.start import run

    return run(
        space, data, ranker, name, trials, max_iterations, seed, storage, tracking_uri, address, overrides,
        objective=_function(objective),
    )  # fmt: skip


@command
def resume(
    name: Name,
    objective: Objective = None,
    storage: Storage = DEFAULT_STORAGE,
    tracking_uri: TrackingUri = None,
    address: Address = None,
) -> Any:
    """Continue a search after a stop, crash or kill.

    \b
    tune-cl resume quickstart

    Nothing finished is repeated; open trials continue from their last checkpoint. For a finished search, only what
    MLflow lacks is sent.
    """
    search = _search(name, storage, tracking_uri)
    return search.resume(address=address, objective=_function(objective))


@command
def confirm(
    name: Name,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="new trainings of each (default: 5 to 20, by time)")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="K", help="candidates of each arm (default 3; 2 of few trials)")
    ] = None,
    trials: Annotated[str, typer.Option(metavar="ID,..", help="test the curricula of these trials instead")] = "",
    split: Annotated[Literal["test", "dev"], typer.Option(help="what is compared on")] = "test",
    plan: Annotated[
        bool, typer.Option("--plan", help="train nothing: how many seeds find which gain, in how many hours")
    ] = False,
    objective: Objective = None,
    storage: Storage = DEFAULT_STORAGE,
    tracking_uri: TrackingUri = None,
    address: Address = None,
) -> Any:
    """The verdict: did a curriculum beat plain training?

    \b
    tune-cl confirm quickstart
    tune-cl confirm quickstart --plan
    tune-cl confirm macavaney2020_curricula --trials t0003,t0017

    First a selection: the K best configurations of each arm, curricula and plain training, are trained with new seeds
    and compared on dev. Then the best curriculum meets its opponents on the split, with N further seeds each: the best
    plain training, its own settings without the curriculum, the defaults and, if it never showed some pairs, the same
    pairs in random order. It is better only if it beats all of them, for new queries and new trainings. More --seeds
    later train only what is missing, and count as a further test.
    """
    if plan and seeds is not None:
        raise ConfigError(Problem("--seeds", "together with --plan", "one of the two"))
    search = _search(name, storage, tracking_uri)
    chosen = [trial for trial in trials.split(",") if trial]
    asked = {"top": top, "trials": chosen, "split": split}
    if plan:
        return search.plan(**asked)
    return search.confirm(seeds=seeds, address=address, objective=_function(objective), **asked)


@command
def effects(
    name: Name,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="new trainings of each curriculum and twin")] = None,
    split: Annotated[
        Literal["test", "dev"] | None, typer.Option(help="what --seeds compares on (default test)")
    ] = None,
    objective: Objective = None,
    storage: Storage = DEFAULT_STORAGE,
    tracking_uri: TrackingUri = None,
    address: Address = None,
) -> Any:
    """What curricula change over all pairs of a search.

    \b
    tune-cl effects quickstart
    tune-cl effects quickstart --seeds 2

    No winner is chosen, so the answer has no selection bias. Without --seeds: from the dev values of the search.
    --seeds N trains every pair with N new seeds and compares them by query on the split; curricula, seeds and queries
    are samples. tune-cl confirm reuses these trainings. More --seeds later train only what is missing.
    """
    if split and seeds is None:
        raise ConfigError(Problem("--split", "without --seeds", "--seeds 2 --split test; or neither"))
    search = _search(name, storage, tracking_uri)
    return search.effects(seeds=seeds, split=split or "test", address=address, objective=_function(objective))


@command
def report(
    name: Name,
    output: Annotated[Path | None, file_option("the page (default: STORAGE/NAME/report.html)")] = None,
    paper: Annotated[
        Path | None, file_option("methods.tex, table.tex, figure.pdf and references.bib instead", "FOLDER")
    ] = None,
    storage: Storage = DEFAULT_STORAGE,
    tracking_uri: TrackingUri = None,
) -> Any:
    """The results of a search: a page, or files for a paper.

    \b
    tune-cl report quickstart
    tune-cl report quickstart --paper paper

    Works while a search runs, and before and after tune-cl confirm; a paper's numbers are the verdict's, before it
    those of dev.
    """
    if output and paper:
        raise ConfigError(Problem("--paper", "not together with --output", "one of them a command"))
    folder = _search(name, storage, tracking_uri).search_folder
    # These import SciPy: a name that is none is told before.
    from tune_cl.report.output import write_output
    from tune_cl.report.paper import write_paper

    return write_paper(folder, paper) if paper else write_output(folder, output)


@command
def train(
    space: Annotated[str | None, typer.Argument(metavar="[SPACE]", help="a shipped space or a YAML file")] = None,
    data: Data = None,
    ranker: Ranker = None,
    output: Annotated[
        Path | None,
        file_option("folder for the ranker, its run and its state (default: one for each configuration)", "DIR"),
    ] = None,
    test: Annotated[
        bool, typer.Option("--test", help="evaluate the best weights on test, which is not read otherwise")
    ] = False,
    overrides: Overrides = None,
) -> Any:
    """One training, no search, no Ray.

    \b
    tune-cl train --data ../data/wikiqa --ranker conv_knrm
    tune-cl train --data docstrings --ranker bert --set curriculum.pacing=root --output root

    SPACE is the configuration to start from; ranges give the baseline's values. The same command again continues a
    training that was stopped, from the last saved iteration.
    """
    from tune_cl.api.train import train

    return train(space, data, ranker, overrides, output, test=test)


@command
def rerank(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="folder of a ranker of tune-cl, or of a model of others, or its hub name"
        ),
    ],
    data: Annotated[str | None, typer.Option(metavar="DATA", help=f"re-rank the candidates of {DATA}")] = None,
    split: Annotated[Split | None, typer.Option(help="whose candidates are re-ranked (default test)")] = None,
    output: Annotated[
        Path | None, file_option("file to write (default: rerank.SPLIT.run.txt, or .predictions.tsv)")
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16", "auto"] | None,
        typer.Option(help="of the scores; auto: bf16 where the hardware has it (default: that of its training)"),
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="rank documents for this text")] = None,
    documents: Annotated[Path | None, file_option("one document a line; .csv and .jsonl: a column text")] = None,
) -> Any:
    """Apply a ranker.

    \b
    tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
    tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt
    tune-cl rerank cross-encoder/ms-marco-MiniLM-L6-v2 --data ../data/wikiqa

    CHECKPOINT may be any model that can be trained: a cross-encoder with one or two labels, a SentenceTransformer, or a
    language model. A line of DOCUMENTS is a text, or an id, a tab and a text. A ranker that was trained to classify
    pairs predicts classes: of the pairs of DATA (as TSV), or of each document with the query as the first sentence.
    """
    if (data is None) == (query is None) or (query is None) != (documents is None):
        right = "either --data DATA, or --query TEXT with --documents FILE"
        raise UserError(Problem("rerank", "needs one task", right))
    from tune_cl.api.rerank import rank_documents, rerank

    if data is not None:
        return rerank(checkpoint, data, split or "test", output, precision)
    if output or split:
        option = "--output" if output else "--split"
        raise UserError(Problem(option, "is for data; the ranking for a text is printed", f"no {option}"))
    assert query is not None
    assert documents is not None
    return rank_documents(checkpoint, query, documents, precision)


@command
def baseline(
    data: Source,
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="bm25, sdm, embedding or oracle")],
    split: Annotated[Split, typer.Option(help="whose queries are ranked")] = "test",
    tune: Annotated[bool, typer.Option("--tune", help="the best parameters of a grid on dev")] = False,
    optimize_on_test: Annotated[
        bool, typer.Option("--optimize-on-test", help="the best parameters on test: an upper bound, no fair baseline")
    ] = False,
    retrieve: Annotated[
        bool, typer.Option("--retrieve", help="rank the whole collection in place of the candidates")
    ] = False,
    output: Annotated[Path | None, file_option("run file (default: DATA.BASELINE.SETTING.SPLIT.run.txt)")] = None,
    overrides: Overrides = None,
) -> Any:
    """Rankings without training: bm25, sdm, embedding.

    \b
    tune-cl baseline ../data/wikiqa bm25 --tune
    tune-cl baseline ../data/nfcorpus sdm --retrieve --tune --set metric=ndcg@10

    Ranks the split's candidates, or, with --retrieve and where the candidates themselves were retrieved by BM25, the
    whole collection to a depth of data.top_k. embedding has nothing to tune; pairs to classify it parts by the
    threshold that is best on dev. Parameters are set with --set data.bm25.k1, data.bm25.b, ranker.vectors and
    ranker.vector_size.
    """
    from tune_cl.api import baseline as api  # the argument has the function's name

    return api.baseline(data, baseline, split, tune, optimize_on_test, retrieve, output or api.NAMED, overrides)


@command
def evaluate(
    qrels: Annotated[Path, typer.Argument(metavar="QRELS", help="TREC qrels file, plain or .gz", parser=user_path)],
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="TREC run files; the first is the reference", parser=user_path),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,..", help="of trec_eval and ir_measures: map, mrr@10, ndcg@10, P_5, recall@100, bpref, ..."
        ),
    ] = None,
    relevance_level: Annotated[int, typer.Option(metavar="N", help="lowest relevant grade")] = 1,
) -> Any:
    """Measures of run files, and paired tests.

    \b
    tune-cl evaluate qrels.test.txt bm25.run ranker.run --metrics map,ndcg@20 --relevance-level 2

    Averages are over all queries of the qrels (trec_eval -c). Each run from the second on is compared with the first
    by a paired t-test over queries.
    """
    from trainables.evaluation.runs import evaluate

    return evaluate(qrels, runs, relevance_level=relevance_level, **({} if metrics is None else {"metrics": metrics}))


@command
def score(
    data: Source,
    scoring: Annotated[str, typer.Argument(metavar="SCORING", help="see tune-cl list scorings")],
    split: Annotated[Split, typer.Option(help="whose instances are scored")] = "train",
    output: Annotated[Path | None, file_option("TSV file (default: DATA.SCORING.SPLIT.tsv)")] = None,
    overrides: Overrides = None,
) -> Any:
    """Difficulty of each training instance.

    \b
    tune-cl score docstrings context_words --output difficulty.tsv

    Writes one line an instance: query id, document id(s), difficulty (higher = harder). An instance is a query with one
    of its relevant documents, whose negatives are drawn in training. With --set training.negatives=all every pair of a
    relevant document and a lower-graded one is an instance, and with --set training.loss=pointwise as well every
    candidate. --set training.loss=pointwise alone gives two instances a relevant document: itself, and one drawn
    negative.
    """
    from tune_cl.api.score import score

    return score(data, scoring, split, output, overrides)


@command
def check(
    space: Space,
    data: Data = None,
    ranker: Ranker = None,
    trials: Trials = None,
    max_iterations: MaxIterations = None,
    seed: Seed = None,
    objective: Objective = None,
    overrides: Overrides = None,
) -> Any:
    """What a search space holds and will cost.

    \b
    tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
    tune-cl check space.yaml --objective own.py:train

    Validates a search space without searching, and forecasts its cost from a few measured steps on this machine. Steps
    of a training function of your own are not measured.
    """
    from tune_cl.api.check import check

    return check(space, data, ranker, trials, max_iterations, seed, overrides, _function(objective))


@command
def data(data: Source, overrides: Overrides = None) -> Any:
    """What a data set holds, and doubts about it.

    \b
    tune-cl data ../data/wikiqa

    Shows the form as which the data is read and its files, the size of each split, the overlap of splits, and two
    examples from each. Queries or texts in two splits make the test too easy.
    """
    from tune_cl.api.data import data_facts

    return data_facts(data, overrides)


@app.command("list", epilog=FOR_ALL)
def list_(
    kind: Annotated[Kind, typer.Argument(help="what is listed")],
    storage: Storage = DEFAULT_STORAGE,
) -> Any:
    """Names for a configuration, and searches in a storage.

    \b
    tune-cl list scorings
    tune-cl list searches --storage /shared/runs
    """
    from tune_cl.api.listing import parts, searches

    return searches(storage) if kind == "searches" else parts(kind)


def _function(objective: str | None) -> Any:
    """The function that --objective names. Raises ConfigError if it cannot be loaded."""
    if objective is None:
        return None
    from trainables.config.function import load_objective

    return load_objective(objective)


def _search(name: str, storage: str, tracking_uri: str | None) -> Any:
    from tune_cl.api.start import open_search

    return open_search(name, storage, tracking_uri)
