"""What MLflow has of a search: a small file beside its journal, for what reads a search without asking MLflow."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from trainables.core.files import write_text
from tune_cl.history.tracking_uri import masked

RECORD = "mlflow.json"


class Record(BaseModel):
    """The parent run of a search. `sent`: so many bytes of the journal, with all their artifacts."""

    model_config = ConfigDict(frozen=True)

    tracking_uri: str
    run_id: str
    sent: int = 0

    def write(self, folder: Path) -> None:
        write_text(folder / RECORD, self.model_dump_json())


def read_record(folder: Path, tracking_uri: str) -> Record | None:
    """The record of a search's folder for this address; None before its run is there."""
    try:
        record = Record.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return record if record.tracking_uri == masked(tracking_uri) else None
