"""Data from Python or the hub: tables of pairs become a folder of Parquet files in the cache, read as any other."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from trainables.core.cache import cached, digest_of
from trainables.core.errors import DataError, Problem, WorkFailed
from trainables.core.hub import hub_answers, hub_out_of_reach, out_of_reach
from trainables.data.readers.files import SPLIT_NAMES, split_of

Data = Any  # str, Path, None, or a table; libraries of tables are not imported for their names
HUB = "hf:"
FORM = f"{HUB}NAME or {HUB}NAME/CONFIGURATION"
NAME = "table"  # of the data
SPLIT = "split"  # the column of a frame that names the split of each row
_KEPT = "pandas DataFrame, mapping of splits to DataFrames, Dataset or DatasetDict of the datasets library"


def as_source(data: Any) -> Any:
    """What `data.source` can name, of the argument `data` of the library's functions: paths, names and None as they
    are, tables as the folder that holds them. A frame's rows without a column `split` are the training split. Raises
    DataError for splits that are none, and for values that no table of Arrow holds."""
    if data is None or isinstance(data, str | Path):
        return data
    if isinstance(data, Mapping):  # a DatasetDict is one too
        return _folder({str(split): _arrow(table) for split, table in data.items()})
    table = _arrow(data)
    if SPLIT not in table.column_names:
        return _folder({"train": table})
    import pyarrow.compute as compute

    names = compute.call_function("unique", [table[SPLIT]]).to_pylist()
    rest = table.drop_columns([SPLIT])
    return _folder({str(name): rest.filter(compute.call_function("equal", [table[SPLIT], name])) for name in names})


def _arrow(table: Any) -> Any:
    """A pyarrow.Table of a DataFrame or a Dataset."""
    import pyarrow

    kind = type(table).__module__.partition(".")[0]
    try:
        if kind == "pandas":
            return pyarrow.Table.from_pandas(table, preserve_index=False)
        if kind == "datasets":
            return table.with_format("arrow")[:]
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        right = "columns of one kind each: texts, numbers, or lists of them"
        raise DataError(Problem("data", f"no table of Arrow ({str(error).splitlines()[0][:200]})", right)) from None
    raise DataError(Problem("data", f"'{type(table).__name__}' is no kind of data", f"a path, a name, a {_KEPT}"))


def _folder(tables: Mapping[str, Any]) -> Path:
    """The folder of the cache with a file for each split."""
    from pyarrow import parquet

    files = {}
    for name, table in tables.items():
        split = split_of(name)
        if split is None or split in files:
            wrong = f"split '{name}'" if split is None else f"'{name}' and another are all the {split} split"
            raise DataError(Problem("data", wrong, f"one of {', '.join(SPLIT_NAMES)} each"))
        sink = io.BytesIO()
        parquet.write_table(table, sink)
        files[split] = sink.getvalue()

    def build(entry: Path) -> None:
        (entry / NAME).mkdir()
        for split, raw in files.items():
            (entry / NAME / f"{split}.parquet").write_bytes(raw)

    return cached("tables", digest_of("tables", files), build) / NAME


def from_hub(source: str) -> Path:
    """The folder with the splits of a dataset of the hub, through the datasets library and its cache. Raises DataError
    for a name that is none, WorkFailed without the library, or if it cannot get the dataset."""
    name = source.removeprefix(HUB).strip("/")
    if not name:
        raise DataError(Problem("data.source", f"'{source}' names no dataset", FORM))
    try:
        import datasets
    except ImportError:
        raise WorkFailed(f"{source} needs the datasets library: pip install datasets") from None
    parts = name.split("/")  # of ORGANISATION/NAME or NAME alone, and of the configuration behind the former
    repository, configuration = "/".join(parts[:2]), "/".join(parts[2:]) or None
    online = hub_answers()
    try:
        with nullcontext() if online else hub_out_of_reach():
            dataset = datasets.load_dataset(repository, configuration)
    except (OSError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())[:300] if online else f"it is not in its cache, and {out_of_reach()}"
        raise WorkFailed(f"datasets could not get '{name}': {why}") from None
    named = dataset if isinstance(dataset, Mapping) else {"train": dataset}
    usable = {split: table for split, table in named.items() if split_of(str(split))}
    if not usable:
        raise DataError(
            Problem("data.source", f"'{name}' has splits {', '.join(map(str, named))}", "train, dev or test")
        )
    return as_source(usable)
