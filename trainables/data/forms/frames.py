"""Data from Python or the hub: tables of pairs become a folder of Parquet files in the cache, read as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from trainables.core.cache import cached, digest_of
from trainables.core.errors import DataError, Problem, WorkFailed
from trainables.core.hub import hub_answers, hub_out_of_reach, out_of_reach
from trainables.data.files import GIVEN, SPLIT_NAMES, split_of
from trainables.data.forms import HUB

Data = Any  # str, Path, None, or a table; libraries of tables are not imported for their names
FORM = f"{HUB}NAME or {HUB}NAME/CONFIGURATION"
NAME = "table"  # of the data
SPLIT = "split"  # the column of a frame that names the split of each row
KINDS = (
    "a path, a name, a pandas DataFrame, pyarrow Table, Dataset or DatasetDict of the datasets library, list or "
    "generator of mappings, mapping of columns to lists, or mapping of splits to any of these"
)


def as_source(data: Data) -> Any:
    """What `data.source` can name, of the argument `data` of the library's functions: paths, names and None as they
    are, tables as the folder that holds them. A table's rows without a column `split` are the training split. Raises
    DataError for splits that are none, and for values that no table of Arrow holds."""
    if data is None or isinstance(data, str | Path):
        return data
    if isinstance(data, Mapping) and not _is_columns(data):  # a DatasetDict is one too
        tables = {str(name): _arrow(table) for name, table in data.items()}
        names = {name: f"data[{name!r}]" if len(tables) > 1 else "data" for name in tables}
        return _folder({name: _numbered(table, names[name]) for name, table in tables.items()})
    table = _numbered(_arrow(data), "data")
    if SPLIT not in table.column_names:
        return _folder({"train": table})
    rest, splits = table.drop_columns([SPLIT]), table[SPLIT]
    return _folder({str(name): rest.filter(pc.equal(splits, name)) for name in pc.unique(splits).to_pylist()})


def _is_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping is of columns to values, not of splits to tables."""
    of_splits = bool(data) and all(split_of(str(name)) for name in data)
    return not of_splits and all(isinstance(column, list | tuple) for column in data.values())


def _kind(table: Any) -> str:
    """Library and class of a value: pandas.DataFrame."""
    return f"{type(table).__module__.partition('.')[0]}.{type(table).__name__}"


TO_ARROW: dict[str, Callable[[Any], pa.Table]] = {
    "pandas.DataFrame": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "datasets.Dataset": lambda table: table.with_format("arrow")[:],
    "polars.DataFrame": lambda table: table.to_arrow(),
    "pyarrow.Table": lambda table: table,
    "pyarrow.RecordBatch": lambda table: pa.table(table),
}


def _arrow(table: Any) -> pa.Table:
    try:
        if to_arrow := TO_ARROW.get(_kind(table)):
            return to_arrow(table)
        if isinstance(table, Mapping):
            return pa.table({str(name): list(column) for name, column in table.items()})
        if isinstance(table, Iterable) and not isinstance(table, str | bytes):
            return pa.Table.from_pylist([dict(row) for row in table])  # an IterableDataset is one too
    except (pa.ArrowException, TypeError, ValueError) as error:
        right = "columns of one kind each: texts, numbers, or lists of them"
        raise DataError(Problem("data", f"no table of Arrow ({str(error).splitlines()[0][:200]})", right)) from None
    raise DataError(Problem("data", f"'{type(table).__name__}' is not a kind of data", KINDS))


def _numbered(table: pa.Table, name: str) -> pa.Table:
    """The table with the numbers of its rows, and its name, for messages. Raises DataError if it has no rows."""
    if not len(table):
        raise DataError(Problem(name, "no rows", "give rows"))
    numbered = table.append_column(GIVEN, pa.array(np.arange(len(table), dtype=np.int32)))
    return numbered.replace_schema_metadata({**(table.schema.metadata or {}), GIVEN: name})


def _folder(tables: Mapping[str, pa.Table]) -> Path:
    """The folder of the cache with a file for each split."""
    files: dict[str, bytes] = {}
    for name, table in tables.items():
        split = split_of(name)
        if split is None or split in files:
            wrong = f"split '{name}'" if split is None else f"'{name}' and another are all the {split} split"
            raise DataError(Problem("data", wrong, f"one of {', '.join(SPLIT_NAMES)} each"))
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink)
        files[split] = sink.getvalue().to_pybytes()

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
        found = f"'{name}' has splits {', '.join(map(str, named))}"
        raise DataError(Problem("data.source", found, "train, dev or test"))
    return as_source(usable)
