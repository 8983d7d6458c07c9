"""What `run` and `resume` show at the end."""

from __future__ import annotations

from shlex import quote
from typing import Any

from tune_cl.commands.tables import short, table
from tune_cl.confirmation.ablation import differences
from tune_cl.confirmation.plan import seedless
from tune_cl.place import place_of, program
from tune_cl.wording import rankers

PORT = 5000  # MLflow's own default
Shown = dict[str, Any]


def render(document: Shown) -> str:
    """The best trial beside the baseline, then the commands that come next. Where the baseline is the best of all, the
    best trial with a curriculum stands beside it: a trial beside itself says nothing."""
    metric, best, baseline = document["metric"], document.get("best_curriculum", document["best"]), document["baseline"]
    won = best is not None and best["trial_id"] == document["best"]["trial_id"]
    lines = [
        f"search {document['search']}: {rankers(document)} on {document['data']}, {document['trials']} trials "
        f"({document['stopped_early']} stopped early, {document['errored']} failed), "
        f"{document['iterations']} iterations, {document['seconds']:.0f} s",
        "",
        _comparison(document, best, baseline, f"best{'' if won else ' curriculum'}"),
        "",
        _difference(metric, best, baseline, won),
        "",
        *_next(document, best, "Prove it:" if won else "Test it:"),
    ]
    return "\n".join(lines)


def _comparison(document: Shown, best: Shown | None, baseline: Shown | None, name: str) -> str:
    """Dev values, and the opened parameters in which the two differ."""
    shown = {f"{name} ({best['trial_id']})": best} if best else {}
    shown |= {"baseline": baseline or {"dev": None, "iteration": None, "params": {}}}
    trials = list(shown.values())
    rows = [(f"dev {document['metric']}", *(trial["dev"] for trial in trials))]
    rows += [("at iteration", *(trial["iteration"] for trial in trials))]
    if "dev_mean" in trials[0]:  # configurations were repeated (search.repeats)
        rows += [("mean over seeds", *(trial.get("dev_mean") for trial in trials))]
        rows += [("seeds", *(len(trial.get("seeds", ())) for trial in trials))]
    for key in document.get("opened", dict.fromkeys(key for trial in trials for key in trial["params"])):
        values = [trial["params"].get(key) for trial in trials]
        if values[0] != values[-1]:
            rows.append((key, *map(short, values)))
    return table(["", *shown], rows)


def _above(best: Shown, baseline: Shown) -> tuple[float, str]:
    """By how much the trial is above the baseline on dev, and with how many seeds."""
    by = "dev_mean" if "dev_mean" in best and "dev_mean" in baseline else "dev"
    several = all(len(trial.get("seeds", ())) > 1 for trial in (best, baseline))
    return best[by] - baseline[by], "a few seeds" if several else "one seed"


def _difference(metric: str, best: Shown | None, baseline: Shown | None, won: bool) -> str:
    if baseline is None:
        return "The baseline gave no dev value, so there is nothing to compare with."
    if best is None:
        return "No trial with a curriculum gave a dev value, so there is nothing to compare with the baseline."
    difference, told = _above(best, baseline)
    if difference <= 0:
        return (
            "No curriculum was above plain training on dev: the best of them "
            f"({best['trial_id']}) is at {difference:+.4f} {metric}."
        )
    if not won:
        return f"{difference:+.4f} {metric} on dev, but with fewer seeds than the baseline, which stays the best."
    return (
        f"{difference:+.4f} {metric} on dev. The best of many trials on {told} looks better than it is: "
        "this is no verdict yet."
    )


def _next(document: Shown, best: Shown | None, confirm: str) -> list[str]:
    """The commands that come next."""
    place = place_of(document["storage"], document["search"])
    ranker = place.folder / "trials" / "best-ranker"
    ablate = " --ablate" if best and _curriculum_and_more(best, document["baseline"]) else ""
    return [
        f"{confirm:<22}{place.command('confirm', document.get('address'))}{ablate}",
        f"Read the report:      {place.command('report')}",
        *_open_mlflow(document),
        f"Use the best ranker:  {program('tune-cl')} rerank {quote(str(ranker))} --query TEXT --documents FILE",
    ]


def _curriculum_and_more(best: Shown, baseline: Shown | None) -> bool:
    """Whether the best trial may owe what it is better by to its curriculum or to other keys."""
    found = differences(seedless(best["params"]), seedless((baseline or best)["params"]))
    return found["has_curriculum"] and bool(found["also_differs"])


def _open_mlflow(document: Shown) -> list[str]:
    """How to open the trials in the MLflow UI: a server is there already, a database needs one."""
    uri, view = document["tracking_uri"], document["mlflow_view"] or ""
    if uri.startswith("http"):
        return [f"Compare the trials:   {uri.rstrip('/')}/{view}"]
    return [
        f"Compare the trials:   {program('mlflow')} ui --host 127.0.0.1 --port {PORT} --backend-store-uri {quote(uri)}",
        f"                      and open http://127.0.0.1:{PORT}/{view}",
    ]
