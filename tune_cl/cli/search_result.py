"""What `run` and `resume` show at the end."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import Any

from trainables.core.plugins import plugin_options
from trainables.core.prose import wrapped
from trainables.rankers import RANKERS
from tune_cl.cli.tables import short, table
from tune_cl.confirmation.verdict import beside
from tune_cl.history.search_folder import SearchFolder, search_folder_of
from tune_cl.history.state import differences, seedless
from tune_cl.process import program
from tune_cl.space.wording import (
    CAUTION,
    DEFAULT,
    NOT_TUNED,
    below_label_free,
    label_free_words,
    rankers,
    tuning_words,
)

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration
Shown = dict[str, Any]


def render(document: Shown) -> str:
    """The best trial of each arm beside the default, then the commands to run next."""
    best, plain = document.get("best_curriculum", document["best"]), document["baseline"]
    won = best is not None and best["trial_id"] == document["best"]["trial_id"]
    lines = [
        wrapped(
            f"search {document['search']}: {rankers(document)} on {document['data']}, {_trials(document)} "
            f"({document['stopped_early']} stopped early, {document['errored']} failed), "
            f"{document['iterations']} iterations, {document['seconds']:.0f} s"
        ),
        *([wrapped(f"What ended the search: {document['ended_by']}.")] if document.get("ended_by") else []),
        "",
        _comparison(document, _columns(document, best, plain, won)),
        "",
        *map(
            wrapped,
            (*_tuning(document, plain), _difference(document, best, plain), *_label_free(document, best, plain)),
        ),
        "",
        *_next(document, best, "Prove it:" if won else "Test it:"),
    ]
    return "\n".join(lines)


def _trials(document: Shown) -> str:
    if not _tuned(document):
        return f"{document['trials']} trials"
    arms, other = document["arms"], "with a curriculum" if document["over_curricula"] else "others"
    return f"{document['trials']} trials, {arms['plain']['trials']} plain and {arms['curriculum']['trials']} {other}"


def _tuned(document: Shown) -> bool:
    """Whether there were plain trials besides the default."""
    return document["arms"]["plain"]["trials"] > 1


def _columns(document: Shown, best: Shown | None, plain: Shown | None, won: bool) -> dict[str, Shown]:
    """The trials that are shown, by their headings."""
    other = "best" if won else "best other trial"
    shown = {f"{'best curriculum' if document['over_curricula'] else other} ({best['trial_id']})": best} if best else {}
    default = document["default"]
    if plain and not (default and plain["trial_id"] == default["trial_id"]):
        shown[f"plain, tuned ({plain['trial_id']})"] = plain
    return shown | {f"{DEFAULT} (t0000)": default or {"dev": None, "iteration": None, "params": {}}}


def _comparison(document: Shown, columns: dict[str, Shown]) -> str:
    """Dev values, and the opened parameters in which the trials differ."""
    trials = list(columns.values())
    rows = [(f"dev {document['metric']}", *(trial["dev"] for trial in trials))]
    rows += [("at iteration", *(trial["iteration"] for trial in trials))]
    for key in document.get("opened", dict.fromkeys(key for trial in trials for key in trial["params"])):
        values = [trial["params"].get(key) for trial in trials]
        if any(value != values[0] for value in values):
            rows.append((key, *map(short, values)))
    return table(["", *columns], rows)


def _tuning(document: Shown, plain: Shown | None) -> list[str]:
    """What tuning was worth to plain training, or that it was not tuned."""
    default, arm = document["default"], document["arms"]["plain"]
    if _tuned(document) and plain and default:
        return [tuning_words(document["metric"], arm["trials"], arm["opened"], plain["dev"], default["dev"])]
    return [NOT_TUNED] if plain and _could_be_tuned(document) else []


def _could_be_tuned(document: Shown) -> bool:
    return document["compares"] and not _tuned(document)


def _difference(document: Shown, best: Shown | None, plain: Shown | None) -> str:
    against = "tuned plain training" if _tuned(document) else "plain training as given"
    against = against if document["compares"] else "the default"
    if plain is None:
        return f"There is no dev value of {against}, so there is nothing to compare with."
    if best is None:
        return f"No trial but {against} gave a dev value, so there is nothing to compare it with."
    difference = best["dev"] - plain["dev"]
    what, size = _what(document), beside(difference, document["metric"])
    if difference <= 0:
        return f"No {what} beat {against} on dev: the best, {best['trial_id']}, was {size}."
    return f"The best {what} was {size} {against} on dev. {CAUTION}"


def _label_free(document: Shown, best: Shown | None, plain: Shown | None) -> list[str]:
    """What needs no training labels, and a warning where both arms are below it."""
    below = below_label_free(document, document["metric"], [one["dev"] for one in (best, plain) if one])
    words = label_free_words(document, document["metric"], "dev")
    return [*([words] if words else []), *([f"Warning: {below}."] if below else [])]


def _what(document: Shown) -> str:
    return "curriculum" if document["over_curricula"] else "other trial"


def _next(document: Shown, best: Shown | None, confirm: str) -> list[str]:
    search_folder = replace(
        search_folder_of(document["storage"], document["search"]),
        tracking_uri=document["tracking_uri"],
        objective=document.get("objective") or "",
    )
    address, untuned = document.get("address"), _could_be_tuned(document)
    ablate = " --ablate" if best and untuned and _curriculum_and_more(best, document["baseline"]) else ""
    lines = {"Tune plain training:": search_folder.command("tune-plain", address)} if untuned else {}
    if best:
        lines[confirm] = f"{search_folder.command('confirm', address)}{ablate}"
        lines["How many seeds?"] = f"{search_folder.command('plan')} --pilot 3"
    lines["Read the report:"] = search_folder.command("report")
    lines["Compare the trials:"] = _trials_in_mlflow(document, search_folder)
    use = "Best checkpoint:" if document.get("objective") else "Use the best ranker:"
    return [
        *(f"{what:<22}{command}" for what, command in lines.items()),
        f"{use:<22}{_use(document)}",
    ]


def _trials_in_mlflow(document: Shown, search_folder: SearchFolder) -> str:
    """Their page at the server or, for a database, the command that starts one."""
    uri = document["tracking_uri"]
    server = uri.startswith("http")
    return f"{uri.rstrip('/')}/{document['mlflow_view'] or ''}" if server else search_folder.command("ui")


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
