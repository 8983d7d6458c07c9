"""What `run` and `resume` show at the end."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import Any

from trainables.core.plugins import plugin_options
from trainables.core.prose import wrapped
from trainables.rankers import RANKERS
from tune_cl.cli.tables import short, table
from tune_cl.history.search_folder import search_folder_of
from tune_cl.history.state import differences, seedless
from tune_cl.process import program
from tune_cl.space.wording import rankers

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration
PORT = 5000  # MLflow's own default
Shown = dict[str, Any]


def render(document: Shown) -> str:
    """The best trial beside the baseline, then the commands to run next. If the baseline is best of all, the best other
    trial is shown beside it."""
    best, baseline = document.get("best_curriculum", document["best"]), document["baseline"]
    won = best is not None and best["trial_id"] == document["best"]["trial_id"]
    lines = [
        wrapped(
            f"search {document['search']}: {rankers(document)} on {document['data']}, {document['trials']} trials "
            f"({document['stopped_early']} stopped early, {document['errored']} failed), "
            f"{document['iterations']} iterations, {document['seconds']:.0f} s"
        ),
        *([wrapped(f"What ended the search: {document['ended_by']}.")] if document.get("ended_by") else []),
        "",
        _comparison(document, best, baseline, "best" if won else "best other trial"),
        "",
        wrapped(_difference(document["metric"], best, baseline)),
        "",
        *_next(document, best, "Prove it:" if won else "Test it:"),
    ]
    return "\n".join(lines)


def _comparison(document: Shown, best: Shown | None, baseline: Shown | None, name: str) -> str:
    """The dev values of both, and the opened parameters in which they differ."""
    shown = {f"{name} ({best['trial_id']})": best} if best else {}
    shown |= {"baseline": baseline or {"dev": None, "iteration": None, "params": {}}}
    trials = list(shown.values())
    rows = [(f"dev {document['metric']}", *(trial["dev"] for trial in trials))]
    rows += [("at iteration", *(trial["iteration"] for trial in trials))]
    for key in document.get("opened", dict.fromkeys(key for trial in trials for key in trial["params"])):
        values = [trial["params"].get(key) for trial in trials]
        if values[0] != values[-1]:
            rows.append((key, *map(short, values)))
    return table(["", *shown], rows)


def _difference(metric: str, best: Shown | None, baseline: Shown | None) -> str:
    if baseline is None:
        return "The baseline gave no dev value, so there is nothing to compare with."
    if best is None:
        return "No trial besides the baseline gave a dev value, so there is nothing to compare it with."
    difference = best["dev"] - baseline["dev"]
    change = f"{difference:+.4f} {metric}"
    if difference <= 0:
        return f"No trial was above the baseline on dev: the best of them ({best['trial_id']}) is at {change}."
    return f"{change} on dev. The best of many trials on one seed looks better than it is: this is no verdict yet."


def _next(document: Shown, best: Shown | None, confirm: str) -> list[str]:
    search_folder = replace(
        search_folder_of(document["storage"], document["search"]),
        tracking_uri=document["tracking_uri"],
        objective=document.get("objective") or "",
    )
    ablate = " --ablate" if best and _curriculum_and_more(best, document["baseline"]) else ""
    prove = [f"{confirm:<22}{search_folder.command('confirm', document.get('address'))}{ablate}"] if best else []
    return [
        *prove,
        *([f"How many seeds?       {search_folder.command('plan')} --pilot 3"] if best else []),
        f"Read the report:      {search_folder.command('report')}",
        *_open_mlflow(document),
        f"{'Best checkpoint:' if document.get('objective') else 'Use the best ranker:':<22}{_use(document)}",
    ]


def _use(document: Shown) -> str:
    """The command that applies the best ranker, or why none was saved. Of a user's function: its best checkpoint."""
    ranker = document["best_ranker"]
    if document.get("objective"):
        return f"{ranker}/{CHECKPOINT}" if ranker else "not saved: the best iteration was reported without a checkpoint"
    if ranker:
        return f"{program('tune-cl')} rerank {quote(ranker)} {_task(document)}{plugin_options()}"
    return f"not saved: no checkpoint of {document['best']['trial_id']} could be read"


def _task(document: Shown) -> str:
    """The arguments for its input: a ranker that reads features or a run's scores cannot rank bare texts."""
    params = document["best"]["params"]
    name = params.get("ranker.name", document["ranker"])
    trees = name in RANKERS and RANKERS[name].grows_trees
    return "--data FOLDER" if trees or params.get("ranker.add_first_stage") else "--query TEXT --documents FILE"


def _curriculum_and_more(best: Shown, baseline: Shown | None) -> bool:
    """Whether both the curriculum and other keys differ from the baseline, so that either may explain the gain."""
    differing = differences(seedless(best["params"]), seedless((baseline or best)["params"]))
    return differing["has_curriculum"] and bool(differing["also_differs"])


def _open_mlflow(document: Shown) -> list[str]:
    """How to open the trials in the MLflow UI: at the server or, for a database, by starting one."""
    uri, view = document["tracking_uri"], document["mlflow_view"] or ""
    if uri.startswith("http"):
        return [f"Compare the trials:   {uri.rstrip('/')}/{view}"]
    return [
        f"Compare the trials:   {program('mlflow')} ui --host 127.0.0.1 --port {PORT} --backend-store-uri {quote(uri)}",
        f"                      and open http://127.0.0.1:{PORT}/{view}",
    ]
