"""Data from Python or the hub: tables of pairs become a folder of Parquet files in the cache, read as any other."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.cache import cached, digest_of
from trainables.core.errors import DataError, Problem, WorkFailed
from trainables.core.hub import hub_answers, hub_out_of_reach, out_of_reach
from trainables.data.readers.files import SPLIT_NAMES, split_of
from trainables.data.readers.tables import write_given

Data = Any  # str, Path, None, or a table; libraries of tables are not imported for their names
HUB = "hf:"
FORM = f"{HUB}NAME or {HUB}NAME/CONFIGURATION"
NAME = "table"  # of the data
SPLIT = "split"  # the column of a frame that names the split of each row
_KEPT = (
    "pandas DataFrame, pyarrow Table, Dataset or DatasetDict of the datasets library, list or generator of mappings, "
    "mapping of columns to lists, or mapping of splits to any of these"
)


def as_source(data: Any) -> Any:
    """What `data.source` can name, of the argument `data` of the library's functions: paths, names and None as they
    are, tables as the folder that holds them. A table's rows without a column `split` are the training split. Raises
    DataError for splits that are none, and for values that no table of Arrow holds."""
    if data is None or isinstance(data, str | Path):
        return data
    if isinstance(data, Mapping) and not _is_columns(data):  # a DatasetDict is one too
        return _folder({str(split): _arrow(table) for split, table in data.items()})
    table = _arrow(data)
    if SPLIT not in table.column_names:
        return _folder({"train": table})
    import pyarrow.compute as compute

    names = compute.call_function("unique", [table[SPLIT]]).to_pylist()
    rest, rows = table.drop_columns([SPLIT]), np.arange(len(table))
    of_split = {str(name): compute.call_function("equal", [table[SPLIT], name]) for name in names}
    numbers = {name: rows[mask.to_numpy(zero_copy_only=False)] for name, mask in of_split.items()}
    return _folder({name: rest.filter(mask) for name, mask in of_split.items()}, numbers)


def _is_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping is of columns to values, not of splits to tables."""
    of_splits = bool(data) and all(split_of(str(name)) for name in data)
    return not of_splits and all(isinstance(column, list | tuple) for column in data.values())


def columns_in(table: Any) -> dict[str, list[Any]] | None:
    """The columns of a table of pandas, Arrow, the datasets library or Polars, as lists; None of another value."""
    match type(table).__module__.partition(".")[0], type(table).__name__:
        case "pandas", "DataFrame":
            return {str(name): table[name].tolist() for name in table.columns}
        case ("pyarrow", "Table" | "RecordBatch"):
            return table.to_pydict()
        case "datasets", "Dataset":
            return table.with_format(None)[:]
        case "polars", "DataFrame":
            return table.to_dict(as_series=False)
    return None


def _arrow(table: Any) -> Any:
    """A pyarrow.Table of a table or of rows."""
    import pyarrow

    kind, name = type(table).__module__.partition(".")[0], type(table).__name__
    try:
        if (kind, name) == ("pandas", "DataFrame"):
            return pyarrow.Table.from_pandas(table, preserve_index=False)
        if (kind, name) == ("datasets", "Dataset"):
            return table.with_format("arrow")[:]
        if (kind, name) == ("polars", "DataFrame"):
            return table.to_arrow()
        if isinstance(table, pyarrow.Table | pyarrow.RecordBatch):
            return pyarrow.table(table.to_pydict()) if isinstance(table, pyarrow.RecordBatch) else table
        if isinstance(table, Mapping):
            return pyarrow.table({str(name): list(column) for name, column in table.items()})
        if isinstance(table, Iterable) and not isinstance(table, str | bytes):
            return _of_rows(list(table))
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        right = "columns of one kind each: texts, numbers, or lists of them"
        raise DataError(Problem("data", f"no table of Arrow ({str(error).splitlines()[0][:200]})", right)) from None
    raise DataError(Problem("data", f"'{name}' is not a kind of data", f"a path, a name, a {_KEPT}"))


def _of_rows(rows: list[Any]) -> Any:
    """A table of mappings; an IterableDataset gives such."""
    import pyarrow

    wrong = next((number for number, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if wrong is not None or not rows:
        what = "no rows" if wrong is None else f"row {wrong} is a '{type(rows[wrong]).__name__}', no mapping"
        raise DataError(Problem("data", what, f"a path, a name, a {_KEPT}"))
    return pyarrow.Table.from_pylist([dict(row) for row in rows])


def _folder(tables: Mapping[str, Any], numbers: Mapping[str, np.ndarray] | None = None) -> Path:
    """The folder of the cache with a file for each split. `numbers`: of the rows of each in the one table that was
    given, for messages."""
    from pyarrow import parquet

    files, given = {}, {}
    for name, table in tables.items():
        split = split_of(name)
        if split is None or split in files:
            wrong = f"split '{name}'" if split is None else f"'{name}' and another are all the {split} split"
            raise DataError(Problem("data", wrong, f"one of {', '.join(SPLIT_NAMES)} each"))
        sink = io.BytesIO()
        parquet.write_table(table, sink)
        files[split] = sink.getvalue()
        alone = numbers is not None or len(tables) == 1
        rows = np.arange(len(table)) if numbers is None else numbers[name]
        given[split] = ("data" if alone else f"data[{name!r}]", rows)

    def build(entry: Path) -> None:
        (entry / NAME).mkdir()
        for split, raw in files.items():
            path = entry / NAME / f"{split}.parquet"
            path.write_bytes(raw)
            write_given(path, *given[split])

    rows = {split: rows.tobytes() for split, (_, rows) in given.items()}
    return cached("tables", digest_of("tables", files, rows), build) / NAME


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
