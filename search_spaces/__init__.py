"""The search spaces that come with tune_cl: one YAML file for each question, and the schema that editors read
(docs/reference.py writes it)."""

from __future__ import annotations

from pathlib import Path

import yaml

from trainables.core.registry import Entry, Registry


def _entry(path: Path) -> Entry[Path]:
    head = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Entry(path.stem, path, head["description"], head["source"])


SPACES: Registry[Path] = Registry("SPACE", *(_entry(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))))
