"""README.md beside a saved ranker: what it was trained on, how, and how good it is, for people and for model hubs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader

from trainables.config.keys import TrainingConfig
from trainables.core.files import write_text
from trainables.data.columns import RankingData
from trainables.data.forms import HUB
from trainables.rankers.hub import file_of
from trainables.rankers.settings import TINY
from trainables.training.ranker_folder import HUB_NAME, is_shared_form, without_folders
from tune_cl.process import versions
from tune_cl.results import Verdict
from tune_cl.space.wording import label_free_of, label_free_rows, label_free_words

CARD = "README.md"
PACKAGES = ("tune-cl", "torch", "sentence-transformers", "transformers", "tokenizers", "lightgbm", "numpy")
BEGIN, END = "<!-- verdict -->", "<!-- end of verdict -->"
UNCONFIRMED = "Not confirmed: the values above are of one training, and dev selected it."

CARDS = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "report" / "templates"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@dataclass(frozen=True)
class Facts:
    """What a card says. `config`: the file that trains the ranker again; `test`: its metrics there, if it was applied;
    `label_free`: what needs no training labels, on dev."""

    run: TrainingConfig
    data: RankingData
    dev: float
    iteration: int
    config: Path
    test: Mapping[str, float] | None = None
    label_free: Mapping[str, Any] = field(default_factory=dict)


def write_card(folder: Path, facts: Facts) -> None:
    """Writes the card of the ranker that was saved in the folder."""
    write_text(
        folder / CARD, f"---\n{yaml.safe_dump(_header(folder, facts), sort_keys=False)}---\n\n{_body(folder, facts)}"
    )


def _fields(card: Path) -> dict[str, Any]:
    """What a card's header says; nothing where it has none that can be read, for nobody checks a card."""
    from huggingface_hub import metadata_load

    try:
        return metadata_load(card) or {}
    except (ValueError, yaml.YAMLError):
        return {}


def _header(folder: Path, facts: Facts) -> dict[str, Any]:
    """What model hubs read. The license is that of the model that training began with, where its card names one."""
    run, shared = facts.run, is_shared_form(folder)
    embeds = run.ranker.embeds
    kind = "sentence-similarity" if embeds else "text-ranking"
    form = ["sentence-transformers" if embeds else "cross-encoder"] if shared else []
    dataset = _dataset(run.data.source)
    return {
        "library_name": "sentence-transformers" if shared else "tune_cl",
        "pipeline_tag": "text-classification" if run.metric == "accuracy" else kind,
        "tags": ["tune_cl", "curriculum-learning", *form],
        **_of_start(str(getattr(run.ranker, "model", TINY))),
        **({"datasets": [dataset]} if dataset else {}),
    }


def _dataset(source: str) -> str | None:
    """The hub's name of the data, if they are from there."""
    return "/".join(source.removeprefix(HUB).strip("/").split("/")[:2]) if source.startswith(HUB) else None


def _of_start(model: str) -> dict[str, Any]:
    """What the hub shall know of the model that training began with: its name there, and its license."""
    if model == TINY:
        return {}
    card = file_of(model, CARD)
    fields = _fields(card) if card else {}
    named = {"base_model": model} if HUB_NAME.fullmatch(model) and not Path(model).exists() else {}
    return {key: fields[key] for key in ("base_model", "license") if isinstance(fields.get(key), str | list)} | named


def _body(folder: Path, facts: Facts) -> str:
    run, settings = facts.run, facts.run.ranker
    packages = [f"{package} {number}" for package, number in versions(PACKAGES).items() if number]
    configuration = [(f"`{key}`", f"`{_short(value)}`") for key, value in without_folders(run.in_force()).items()]
    return CARDS.get_template("card.md").render(
        name=run.ranker.name,
        folder=folder.name,
        data=facts.data.name,
        features=run.reads == "features",
        shared=is_shared_form(folder),
        embeds=settings.embeds,
        passages=getattr(run.ranker, "passages", "") == "average",
        max_length=run.training.max_length,
        source=without_folders(run.data.source),
        digest=facts.data.digest,
        sizes=[(name, f"{len(split):,}", f"{len(split.document):,}") for name, split in facts.data.splits.items()],
        results=_results(facts),
        configuration=configuration,
        begin=BEGIN,
        end=END,
        unconfirmed=UNCONFIRMED,
        made_with=", ".join(packages),
        config=shlex.quote(os.path.relpath(facts.config, folder)),
    )


def _results(facts: Facts) -> list[tuple[str, str]]:
    metric = facts.run.metric
    rows = [(f"dev {metric}, best of iteration {facts.iteration}", facts.dev)]
    free = label_free_rows(*label_free_of(facts.label_free))
    rows += [(f"dev {metric} of {one.label}, without training labels", one.mean) for one in free]
    rows += [(f"test {name}", value) for name, value in (facts.test or {}).items()]
    return [(name, f"{value:.4f}") for name, value in rows]


def _short(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def write_verdict(folder: Path, verdict: Verdict, command: str) -> None:
    """Puts a confirmation's verdict into the card in the folder, in place of an earlier one. Without a card, or where
    its marks were removed, nothing is written. `command`: what confirmed it."""
    path = folder / CARD
    if not path.is_file():
        return
    rows = label_free_rows(verdict.first_stage, verdict.label_free)
    without = label_free_words(rows, verdict.metric, verdict.split)
    words = " ".join([*verdict.sentences, *([without] if without else [])])
    by = shlex.join(without_folders(shlex.split(command)))
    section = f"**Verdict on the search that this ranker is the best of.** {words} (On {verdict.split}, by `{by}`.)"
    section = f"{BEGIN}\n{section}\n{END}"
    text = path.read_text(encoding="utf-8")
    write_text(path, re.sub(f"{BEGIN}.*?{END}", lambda _: section, text, count=1, flags=re.DOTALL))
