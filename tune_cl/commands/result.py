"""What `run` and `resume` show at the end."""

from __future__ import annotations

from shlex import quote
from typing import Any

from tune_cl.commands.tables import table
from tune_cl.confirmation.ablation import differences
from tune_cl.confirmation.plan import seedless
from tune_cl.place import place_of, program

PORT = 5000  # MLflow's own default


def render(document: dict[str, Any]) -> str:
    """The best trial beside the baseline, then the commands that come next."""
    metric, best, baseline = document["metric"], document["best"], document["baseline"]
    lines = [
        f"search {document['search']}: {document['ranker']} on {document['data']}, {document['trials']} trials "
        f"({document['stopped_early']} stopped early, {document['errored']} failed), "
        f"{document['iterations']} iterations, {document['seconds']:.0f} s",
        "",
        _comparison(metric, best, baseline),
        "",
        _difference(metric, best, baseline),
        "",
        *_next(document),
    ]
    return "\n".join(lines)


def _comparison(metric: str, best: dict[str, Any], baseline: dict[str, Any] | None) -> str:
    """Dev values, and the parameters in which the two differ."""
    other = baseline or {"dev": None, "iteration": None, "params": {}}
    keys = [key for key in best["params"] | other["params"] if best["params"].get(key) != other["params"].get(key)]
    rows = [(f"dev {metric}", best["dev"], other["dev"]), ("at iteration", best["iteration"], other["iteration"])]
    if "dev_mean" in best:  # configurations were repeated (search.repeats)
        rows += [("mean over seeds", best["dev_mean"], other.get("dev_mean"))]
        rows += [("seeds", len(best["seeds"]), len(other.get("seeds", ())))]
    rows += [(key, best["params"].get(key), other["params"].get(key)) for key in keys]
    return table(["", f"best ({best['trial_id']})", "baseline"], rows)


def _difference(metric: str, best: dict[str, Any], baseline: dict[str, Any] | None) -> str:
    if baseline is None:
        return "The baseline gave no dev value, so there is nothing to compare with."
    by, told = ("dev_mean", "a few seeds") if "dev_mean" in best and "dev_mean" in baseline else ("dev", "one seed")
    difference = best[by] - baseline[by]
    if difference <= 0:
        return f"No curriculum was above plain training on dev (best {difference:+.4f} {metric})."
    return (
        f"{difference:+.4f} {metric} on dev. The best of many trials on {told} looks better than it is: "
        "this is no verdict yet."
    )


def _next(document: dict[str, Any]) -> list[str]:
    """The commands that come next."""
    place = place_of(document["storage"], document["search"])
    ranker = place.folder / "trials" / "best-ranker"
    ablate = " --ablate" if _curriculum_and_more(document["best"], document["baseline"]) else ""
    return [
        f"Prove it:             {place.command('confirm', document.get('address'))}{ablate}",
        f"Read the report:      {place.command('report')}",
        *_open_mlflow(document),
        f"Use the best ranker:  {program('tune-cl')} rerank {quote(str(ranker))} --query TEXT --documents FILE",
    ]


def _curriculum_and_more(best: dict[str, Any], baseline: dict[str, Any] | None) -> bool:
    """Whether the best trial may owe what it is better by to its curriculum or to other keys."""
    found = differences(seedless(best["params"]), seedless((baseline or best)["params"]))
    return found["has_curriculum"] and bool(found["also_differs"])


def _open_mlflow(document: dict[str, Any]) -> list[str]:
    """How to open the trials in the MLflow UI: a server is there already, a database needs one."""
    uri, view = document["tracking_uri"], document["mlflow_view"] or ""
    if uri.startswith("http"):
        return [f"Compare the trials:   {uri.rstrip('/')}/{view}"]
    return [
        f"Compare the trials:   {program('mlflow')} ui --host 127.0.0.1 --port {PORT} --backend-store-uri {quote(uri)}",
        f"                      and open http://127.0.0.1:{PORT}/{view}",
    ]
