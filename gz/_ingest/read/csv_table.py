"""Text tables, parsed by the engine on all threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gz import _engine
from gz._base.dtypes import Column
from gz._base.progress import Progress
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.read.arrow import is_time, text_values
from gz._ingest.read.csv_header import has_header, is_plain_integer
from gz._ingest.read.csv_layout import (
    SNIFF,
    Layout,
    commas_in_numbers,
    guess_dtype,
    is_stream,
    open_text,
    read_text,
    sniff,
)
from gz._ingest.read.ends import ID_NAMES, find_ends, find_id, named_ends
from gz._ingest.read.files import InputFile
from gz._ingest.read.tables import Chunk, Table


class Ends:
    """The id columns of an edge list: those given, or found by name; by place only where nothing has one.

    `turned`: the destination first.
    """

    def __init__(
        self,
        given: Sequence[Any] | None = None,
        types: tuple[str, str] = ("", ""),
        strict: bool = True,
        turned: bool = False,
    ):
        self.wanted: list[Any] = list(given or ())
        self._types, self._strict, self._turned = types, strict, turned

    def named(self, names: list[str]) -> bool:
        return named_ends(names, self._types) is not None

    def fields(self, lay: Layout, path: str) -> list[int]:
        found = self._find(lay, path)
        return found[::-1] if self._turned else found

    def _find(self, lay: Layout, path: str) -> list[int]:
        if self.wanted:
            return [lay.field(w, path) for w in self.wanted]
        if lay.num_fields < 2:
            first = lay.names or (lay.sample[0] if lay.sample else [])
            raise InputError(
                f"{path}, line {max(lay.lines_before, 1)}: has 1 field "
                f"({first[0] if first else ''!r}), an edge needs two"
            )
        if self._strict and lay.names:
            return find_ends(lay.names, self._types, path)
        return named_ends(lay.names, self._types) or [0, 1]


class IdColumn:
    """The id column of a node table."""

    def __init__(self, given: Any = None):
        self._given = int(given) if isinstance(given, str) and given.isdigit() else given
        self.wanted: list[Any] = [] if given is None else [self._given]

    def named(self, names: list[str]) -> bool:
        return any(n.strip().lower() in ID_NAMES for n in names)

    def fields(self, lay: Layout, path: str) -> list[int]:
        names = lay.names or [lay.name(i) for i in range(lay.num_fields)]
        return [find_id(names, self._given, path)]


class Columns:
    """Columns by name or place, all of them keys."""

    def __init__(self, given: Sequence[Any] = ()):
        self.wanted = list(given)

    def named(self, names: list[str]) -> bool:
        return False

    def fields(self, lay: Layout, path: str) -> list[int]:
        return [lay.field(k, path) for k in self.wanted]


class CsvTable(Table):
    """A text file with up to two id columns and any number of value columns.

    `ids`: what an id is: "dense" or "int" (integers), "text", or "map": text where a value among the first
    lines is no integer or has a leading zero. `values`: the other columns to read, by default all but `drop`;
    with `some_values` those of them that are there.
    `fill`: what stands for an empty field, by column.
    """

    def __init__(
        self,
        file: InputFile,
        *,
        keys: Ends | IdColumn | Columns | None = None,
        values: Sequence[str | int] | None = None,
        some_values: bool = False,
        drop: Sequence[str] = (),
        dtypes: dict[str, str] | None = None,
        dtype: str | None = None,
        one_dtype: bool = False,
        weight: str | None = None,
        ids: str = "dense",
        fill: dict[str, Any] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        skip_bad: bool = False,
        empty_is_nan: bool = False,
    ):
        self.name, self._file = file.path, file
        keys = keys if keys is not None else Columns()
        wanted = [*keys.wanted, *((values or ()) if not some_values else ())]
        key_fields = [w for w in keys.wanted if isinstance(w, int)] or [0, 1]
        kind = ids if not isinstance(keys, Columns) or keys.wanted else None

        def decide(rows: list[list[str]], path: str) -> bool:
            return has_header(rows, path, wanted=wanted, named=keys.named, key_fields=key_fields, ids=kind)

        text = kind in ("text", "map")
        self.layout = sniff(file, delimiter, header, decide, comments=None if text else True)
        lay = self.layout
        self._key_fields = keys.fields(lay, self.name)
        self._ids = ids
        self.key_kinds = [self._kind(k) for k in self._key_fields]
        self._comments = not text
        self._skip_bad, self._empty_is_nan, self._fill = skip_bad, empty_is_nan, fill or {}
        self.piece_bytes = 8 << 20
        rest = [i for i in range(lay.num_fields) if i not in self._key_fields]
        if values is None:
            kept = [i for i in rest if lay.name(i) not in (*drop, "")]
        else:
            there = [v for v in values if not some_values or not isinstance(v, str) or v in lay.names]
            found = (lay.field(v, self.name) for v in there)
            kept = [f for f in found if lay.name(f) not in drop and f not in self._key_fields]
        self._value_fields = kept
        self.left_out = [lay.name(i) for i in rest if i not in kept]
        self.weight = weight
        self._read_as: dict[str, str] = {}  # of value columns: a dtype, text, or Arrow's name of a time
        for f in kept:
            name = lay.name(f)
            chosen = "float32" if name == weight else (dtypes or {}).get(name) or dtype
            values_seen = [r[f] for r in lay.sample if f < len(r)]
            self._read_as[name] = chosen or guess_dtype(values_seen)
            if not chosen and self._read_as[name] == "text":
                self._warn_of_commas(name, values_seen)
        if one_dtype and len(set(self._read_as.values())) > 1:
            texts = [n for n, d in self._read_as.items() if d == "text" or is_time(d)]
            if texts:
                raise InputError(
                    f"{self.name}: column {texts[0]!r} does not hold numbers, so it cannot stand in a row "
                    "of numbers; choose the columns"
                )
            self._read_as = dict.fromkeys(self._read_as, "float64")
        self.limits: list[int] = [0] * len(self._key_fields)
        self.bytes_total = file.size
        self.bytes_done = 0

    def _warn_of_commas(self, name: str, values: list[str]) -> None:
        if (shown := commas_in_numbers(values)) is not None:
            warnings.warn(
                f"{self.name}: column {name!r} holds {shown!r}, which is kept as text (codes): numbers have "
                "a point and no commas. If these are numbers, give the frame that pandas.read_csv(..., "
                f'decimal=",") or (..., thousands=",") reads; if they are text, say columns={{{name!r}: '
                '"text"}',
                RuntimeWarning,
                4,
            )

    def _kind(self, field: int) -> str:
        if self._ids != "map":
            return "text" if self._ids == "text" else "int"
        values = [r[field] for r in self.layout.sample if field < len(r)]
        return "int" if all(is_plain_integer(v) for v in values) else "text"

    @property
    def value_columns(self) -> list[Column]:
        return [Column(n, "int64", unit=d) if is_time(d) else Column(n, d) for n, d in self._read_as.items()]

    def read_as(self, name: str, dtype: str) -> None:
        """Another file of the same table needs this column to be wider."""
        if name in self._read_as:
            self._read_as[name] = dtype

    @property
    def columns(self) -> list[Column]:  # type: ignore[override]
        """The key columns, whose kind may still be settled by other tables, then the values."""
        kinds = zip(self._key_fields, self.key_kinds, strict=True)
        keys = [Column(self.layout.name(f), "text" if k == "text" else "int64") for f, k in kinds]
        return keys + self.value_columns

    @property
    def text_keys(self) -> bool:
        return "text" in self.key_kinds

    def _through_text(self, name: str) -> bool:
        """Whether a column is handed on as text and converted here; the parser reads numbers."""
        return self._read_as[name] == "text" or is_time(self._read_as[name]) or name in self._fill

    def plain(self) -> bool:
        """Whether the parser does all of it."""
        return not any(self._through_text(n) for n in self._read_as)

    def head(self, rows: int) -> list[list[str]]:
        fields = [*self._key_fields, *self._value_fields]
        return [[r[f] for f in fields if f < len(r)] for r in self.layout.sample[:rows]]

    def fit(self, memory: int) -> None:
        """Pieces so small that those of all threads keep to a budget."""
        self.piece_bytes = max(1 << 14, min(8 << 20, memory // 96))

    @property
    def key_names(self) -> list[str]:
        return [self.layout.name(f) for f in self._key_fields]

    def record(self) -> np.dtype:
        """One row of values as the parser packs it."""
        return np.dtype([(c.name, c.numpy) for c in self.value_columns if not self._through_text(c.name)])

    def _source(self, record: np.dtype) -> _engine.CsvSource:
        lay = self.layout
        names = lay.names or []
        f = _engine.CsvFormat(
            lay.delimiter,
            lay.num_fields,
            self._key_fields,
            self.text_keys,
            self._ids != "dense",
            self.limits,
            self._skip_bad,
            names,
            strict_integers=self._ids == "map" or (self._ids == "dense" and 0 in self.limits),
            comments=self._comments,
        )
        fields: Any = record.fields or {}
        for field, c in zip(self._value_fields, self.value_columns, strict=True):
            if self._through_text(c.name):
                f.add_text(field)
                continue
            at = int(fields[c.name][1])
            f.add_value(field, c.dtype, at, c.name == self.weight, self._empty_is_nan)
        f.set_payload(record.itemsize)
        return _engine.CsvSource(self.name, f, lay.lines_before, self.piece_bytes)

    def _run(
        self, source: _engine.CsvSource, from_file: Callable[[], Any], from_text: Callable[[bytes], Any]
    ) -> Iterator[Any]:
        """Drives the parser over the file or the decompressed text, one wave at a time."""
        if not is_stream(self._file):
            handle = self._file.handle()
            source.open_file(handle.fd, self.layout.data_offset)
            more = True
            while more:
                more, result = from_file()
                self.bytes_done = min(source.position, self.bytes_total)
                yield result
        else:
            for text in self._decompressed():
                yield from_text(text)
        self.skipped, self.first_skipped = source.skipped, source.first_skipped

    def _decompressed(self) -> Iterator[bytes]:
        wave = self.piece_bytes * 4
        with open_text(self._file) as f:
            f.read(self.layout.data_offset)
            rest = b""
            while True:
                try:
                    block = f.read(wave)
                except (EOFError, OSError) as e:
                    raise InputError(f"{self.name}: cannot be decompressed: {e}") from None
                if not block:
                    break
                block = rest + block
                cut = block.rfind(b"\n") + 1
                rest = block[cut:]
                if cut:
                    yield block[:cut]
            if rest:
                yield rest

    def estimated_rows(self) -> int:
        """From the length of lines here and there; the lines of a sample are as long as those of the rest."""
        size = self.bytes_total
        if self._file.is_remote:
            return 0  # nobody knows before it is read
        if is_stream(self._file):
            samples = [read_text(self._file)]
            # Ids in text shrink to a third or a quarter, rarely to an eighth.
            size = size * 8 if len(samples[0]) >= SNIFF else len(samples[0])
        else:
            places = {0, max(0, size // 2), max(0, size - SNIFF)}
            samples = [self._file.read_at(at, SNIFF) for at in places]
        shortest = min((len(s) / max(1, s.count(b"\n")) for s in samples if s), default=1.0)
        return int(size / shortest) + 1

    def to_builder(self, builder: _engine.Builder, record: np.dtype, progress: Progress) -> None:
        """All edges straight into the builder; nothing passes through Python."""
        source = self._source(record)
        steps = self._run(
            source,
            lambda: (source.file_to_builder(builder), None),
            lambda text: source.text_to_builder(builder, text),
        )
        for _ in steps:
            progress.update(self.bytes_done, self.bytes_total, "B")

    def chunks(self, rows: int) -> Iterator[Chunk]:
        record = self.record()
        source = self._source(record)
        row = 0
        for pieces in self._run(source, source.file_to_rows, source.text_to_rows):
            for rows_read in pieces:
                part: dict[str, Any] = {}
                for c, k in zip(self.columns, rows_read.keys, strict=False):
                    part[c.name] = Text(k.offsets, k.bytes) if self.text_keys else k
                    if self.text_keys and c.dtype != "text":
                        part[c.name] = as_integers(part[c.name], f"{self.name}: column {c.name!r}", row)
                values = rows_read.payload.view(record) if record.itemsize else None
                texts = iter(rows_read.texts)
                for c in self.value_columns:
                    if self._through_text(c.name):
                        t = next(texts)
                        dtype = self._read_as[c.name]
                        part[c.name] = text_values(
                            Text(t.offsets, t.bytes), c, dtype, row, self.name, self._fill
                        )
                    else:
                        part[c.name] = values[c.name] if values is not None else None
                yield Chunk(part, rows_read.count, self.name, row)
                row += rows_read.count


def as_integers(text: Text, where: str, first_row: int, zeros: bool = False) -> np.ndarray:
    """Text as int64. With `zeros`, 007 is 7."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = text.to_arrow()
    good = pc.match_substring_regex(values, "^-?[0-9]+$" if zeros else "^(0|-?[1-9][0-9]*)$")
    if not pc.all(good).as_py():
        i = good.index(pa.scalar(False)).as_py()
        raise InputError(
            f"{where}, row {first_row + i}: {text.value(i)!r} is not an integer id, as those before it are; "
            'where ids are text, say ids="text" (--ids text)'
        )
    try:
        return values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as e:
        raise InputError(f"{where}, rows from {first_row} on: {' '.join(str(e).split())}") from None
