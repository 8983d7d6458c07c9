"""README.md beside a saved ranker."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.builders import tiny_data
from tests.support.report_cases import shown_verdict
from tests.support.trec_folder import write_trec_folder
from tune_cl.api.train import train
from tune_cl.model_card import UNCONFIRMED, write_verdict

SMALL = {"training.max_iterations": 2, "training.batches_per_iteration": 2, "training.batch_size": 4,
         "training.max_length": 24, "curriculum.pacing": "root", "curriculum.scoring": "turns"}  # fmt: skip


@pytest.mark.parametrize(("ranker", "library"), [("bert", "sentence-transformers"), ("knrm", "tune_cl")])
def test_a_training_leaves_a_card(ranker: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = write_trec_folder(tiny_data(queries=6, turns=1), tmp_path / "data")
    run = train(data=data, ranker=ranker, overrides=SMALL, output=tmp_path / "out", progress=False, test=True)
    card = (tmp_path / "out/ranker/README.md").read_text()
    _, header, body = card.split("---\n", 2)
    fields = yaml.safe_load(header)
    assert fields["library_name"] == library and fields["pipeline_tag"] == "text-ranking" and "license" not in fields
    assert ("CrossEncoder" in body) is (ranker == "bert") and "tune_cl.load_ranker" in body
    assert run.test and f"| test map | {run.test['map']:.4f} |" in body and f"{max(run.dev):.4f}" in body
    assert "| `curriculum.pacing` | `root` |" in body and UNCONFIRMED in body
    assert str(tmp_path) not in card and "`data.source` | `data`" in card and "tune-cl train ../config.yaml" in card
    again = train(space=tmp_path / "out/config.yaml", output=tmp_path / "again", progress=False)
    assert again.dev == run.dev
    verdict = shown_verdict()
    for _ in range(2):
        command = f"tune-cl confirm toy --storage {tmp_path / 'runs'} --seeds 5"
        write_verdict(tmp_path / "out/ranker", verdict, command)
        card = (tmp_path / "out/ranker/README.md").read_text()
        assert (
            card.count("tune-cl confirm toy --storage runs --seeds 5") == 1
            and UNCONFIRMED not in card
            and "| test map |" in card
        )
        assert verdict.headline in card and "0.4700" in card
