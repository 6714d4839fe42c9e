"""docs/format.md, rule by rule, with literal bytes: each broken rule is refused by name, none crashes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import xxhash

import gz
from gz import _engine

CHUNK = 4 << 20


def tree_hash(data: bytes) -> int:
    """The checksum of a section as docs/format.md words it, on the reference implementation of XXH64."""
    chunks = [xxhash.xxh64_intdigest(data[i : i + CHUNK]) for i in range(0, len(data), CHUNK)]
    return xxhash.xxh64_intdigest(struct.pack(f"<{len(chunks)}Q", *chunks))


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4096)


class File:
    """A .gl or .gd file put together by hand, byte by byte, as docs/format.md says."""

    def __init__(self, kind: int, sections: dict[int, tuple[bytes, int]], shape: bytes, flags: int = 0):
        self.header = bytearray(4096)
        self.header[:8] = b"\x89GZF\r\n\x1a\n"
        struct.pack_into("<IIII", self.header, 8, 1, 0x01020304, kind, 4096)
        struct.pack_into("<Q", self.header, 40, flags)
        self.body = b""
        for index, (data, dtype) in sections.items():
            self.body = padded(self.body)
            struct.pack_into(
                "<QQQI",
                self.header,
                64 + 32 * index,
                4096 + len(self.body),
                len(data),
                tree_hash(data),
                dtype,
            )
            self.body += data
        self.header[320 : 320 + len(shape)] = shape
        struct.pack_into("<Q", self.header, 24, 4096 + len(self.body))

    def put(self, offset: int, form: str, *values) -> File:
        struct.pack_into("<" + form, self.header, offset, *values)
        return self

    def write(self, path, seal: bool = True) -> str:
        if seal:
            struct.pack_into("<Q", self.header, 32, 0)
            struct.pack_into("<Q", self.header, 32, xxhash.xxh64_intdigest(bytes(self.header)))
        path.write_bytes(bytes(self.header) + self.body)
        return str(path)


def feature(array=None) -> File:
    array = np.arange(6, dtype=np.float32).reshape(3, 2) if array is None else array
    shape = struct.pack("<II8Q", array.ndim, 0, *array.shape, *[0] * (8 - array.ndim))
    return File(2, {0: (array.tobytes(), 9)}, shape)


# 0 -> 1, 2 -> 1, 1 -> 2 by destination, with ids, positions and weights.
INDPTR = np.array([0, 0, 2, 3], np.uint64)
INDICES = np.array([0, 2, 1], np.uint32)
EDGE_IDS = np.array([2, 0, 1], np.uint32)
POSITIONS = np.array([1, 2, 0], np.uint32)
WEIGHTS = np.array([1, 1, 5], np.float32)
ALIAS = np.array([[0xFFFFFFFF, 0], [0xFFFFFFFF, 1], [0xFFFFFFFF, 0]], np.uint32)


def topology(flags: int = 1, **changed) -> File:
    arrays = {
        "indptr": INDPTR,
        "indices": INDICES,
        "edge_ids": EDGE_IDS,
        "positions": POSITIONS,
        "weights": WEIGHTS,
        "alias": ALIAS,
    } | changed
    dtypes = {"uint64": 12, "uint32": 11, "int64": 6, "float32": 9}
    sections = {
        i: (a.tobytes(), dtypes[a.dtype.name]) for i, a in enumerate(arrays.values()) if a is not None
    }
    return File(1, sections, struct.pack("<QQQQII", 3, 3, 3, 3, 0, 0), flags)


def test_files_written_by_hand_open_and_verify(tmp_path):
    path = feature().write(tmp_path / "x.gd")
    _engine.verify_feature(path)
    assert gz.FeatureStore(path).get_tensor().tolist() == [[0, 1], [2, 3], [4, 5]]
    path = topology().write(tmp_path / "t.gl")
    _engine.verify_topology(path)
    graph = gz.Graph(path)
    assert graph.neighbors(1).tolist() == [0, 2]
    assert graph.sample([1], [-1]).edge_ids.tolist() == [2, 0]
    assert graph.edge_positions.tolist() == [1, 2, 0]
    assert graph.weights.tolist() == [1, 1, 5]


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_the_checksum_is_the_documented_one(size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert _engine.tree_hash(data) == tree_hash(data.tobytes())


HEADER_RULES = [
    (lambda f: f.put(0, "B", 0x88), "not a gz file"),
    (lambda f: f.put(8, "I", 2), "format version 2"),
    (lambda f: f.put(12, "I", 0x04030201), "byte order"),
    (lambda f: f.put(16, "I", 7), "unknown kind"),
    (lambda f: f.put(20, "I", 512), "header size is 512"),
    (lambda f: f.put(24, "Q", 12345), "header says 12345"),
    (lambda f: f.put(40, "Q", 1 << 40), "unknown flag"),
    (lambda f: f.put(48, "Q", 1), "reserved header bytes"),
    (lambda f: f.put(4000, "B", 1), "reserved header bytes"),
]

FEATURE_RULES = [
    *HEADER_RULES,
    (lambda f: f.put(16, "I", 1), "is a topology"),
    (lambda f: f.put(40, "Q", 1), "unknown flag"),
    (lambda f: f.put(64, "Q", 4097), "4096-byte boundary"),
    (lambda f: f.put(64, "Q", 0), "overlaps"),
    (lambda f: f.put(64, "Q", 8192), "past the end"),
    (lambda f: f.put(64, "Q", (1 << 64) - 4096), "past the end"),
    (lambda f: f.put(72, "Q", 23), "is 23 bytes"),
    (lambda f: f.put(88, "I", 0), "dtype"),
    (lambda f: f.put(88, "I", 12), "dtype uint64"),
    (lambda f: f.put(88, "I", 99), "dtype"),
    (lambda f: f.put(92, "I", 1), "reserved"),
    (lambda f: f.put(96, "Q", 1), "must be absent"),
    (lambda f: f.put(320, "I", 0), "0 dimensions"),
    (lambda f: f.put(320, "I", 9), "9 dimensions"),
    (lambda f: f.put(324, "I", 9), "rows of float32 that are read as dtype 9 are of an encoding"),
    (lambda f: f.put(324, "I", 1), "encoding that this gz does not know: update gz"),
    (lambda f: f.put(324, "I", 77).put(88, "I", 7), "encoding"),
    (lambda f: f.put(324, "I", 10).put(88, "I", 3), "encoding"),
    (lambda f: f.put(324, "I", 9).put(88, "I", 7), "is 24 bytes, but 3 items of 4 bytes"),
    (lambda f: f.put(324, "I", 9).put(88, "I", 3), "is 24 bytes, but 3 items of 6 bytes"),
    (lambda f: f.put(324, "I", 9).put(88, "I", 3).put(328, "Q", 1 << 60), "overflows"),
    (lambda f: f.put(328, "Q", 4), "items"),
    (lambda f: f.put(328, "Q", 1 << 63), "overflows"),
    (lambda f: f.put(328, "QQ", 1 << 61, 8), "overflows"),
    (lambda f: f.put(344, "Q", 1), "past ndim"),
]

TOPOLOGY_RULES = [
    *HEADER_RULES,
    (lambda f: f.put(16, "I", 2), "is a feature"),
    (lambda f: f.put(320, "Q", 4), "indptr"),
    (lambda f: f.put(320, "Q", (1 << 64) - 1), "2.62"),
    (lambda f: f.put(336, "Q", 4), "indices"),
    (lambda f: f.put(344, "Q", 5), "edge_positions"),
    (lambda f: f.put(352, "I", 2), "direction"),
    (lambda f: f.put(356, "I", 1), "reserved"),
    (lambda f: f.put(380, "I", 1), "reserved header bytes"),
    (lambda f: f.put(328, "Q", 1 << 33), "32 bits wide"),
    (lambda f: f.put(88, "I", 6), "indptr.*dtype"),
    (lambda f: f.put(120, "I", 9), "indices.*dtype"),
    (lambda f: f.put(96, "Q", 4096), "overlaps"),
    (lambda f: f.put(216, "I", 0), "weights.*must be absent"),
    (lambda f: f.put(256, "Q", 4096), "must be absent"),
]


@pytest.mark.parametrize(("break_it", "message"), FEATURE_RULES)
def test_a_feature_that_breaks_a_rule_is_refused_by_name(break_it, message, tmp_path):
    path = break_it(feature()).write(tmp_path / "x.gd")
    with pytest.raises(gz.FormatError, match=rf"x\.gd: .*{message}"):
        gz.FeatureStore(path)


@pytest.mark.parametrize(("break_it", "message"), TOPOLOGY_RULES)
def test_a_topology_that_breaks_a_rule_is_refused_by_name(break_it, message, tmp_path):
    path = break_it(topology()).write(tmp_path / "t.gl")
    with pytest.raises(gz.FormatError, match=rf"t\.gl: .*{message}"):
        gz.Graph(path)


def test_a_header_that_was_touched_is_refused(tmp_path):
    f = feature()
    f.write(tmp_path / "x.gd")
    path = f.put(328, "Q", 2).write(tmp_path / "x.gd", seal=False)
    with pytest.raises(gz.FormatError, match="header checksum"):
        gz.FeatureStore(path)


@pytest.mark.parametrize("keep", [0, 7, 4095, 4096, 4096 + 23])
def test_a_file_cut_short_is_refused(keep, tmp_path):
    path = tmp_path / "x.gd"
    feature().write(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(gz.FormatError, match="truncated"):
        gz.FeatureStore(path)


@pytest.mark.parametrize(
    "indptr", [[1, 1, 2, 3], [0, 0, 2, 2], [0, 0, 2, 4]], ids=["begins late", "ends early", "ends late"]
)
def test_indptr_must_run_from_zero_to_the_number_of_edges(indptr, tmp_path):
    path = topology(indptr=np.array(indptr, np.uint64)).write(tmp_path / "t.gl")
    with pytest.raises(gz.FormatError, match="indptr does not run"):
        gz.Graph(path)


DATA_RULES = [
    ({"indptr": np.array([0, 9, 2, 3], np.uint64)}, "indptr must not descend .* node 0"),
    ({"indices": np.array([0, 3, 1], np.uint32)}, "every neighbour must be below .* position 1"),
    ({"indices": np.array([2, 0, 1], np.uint32)}, "does not ascend .* node 1"),
    ({"edge_ids": np.array([2, 0, 3], np.uint32)}, "every edge id must be below .* position 2"),
    ({"positions": np.array([1, 3, 0], np.uint32)}, "every edge position must be below .* edge id 1"),
    ({"weights": np.array([1, -1, 5], np.float32)}, "weights must be finite .* position 1"),
    ({"weights": np.array([1, 1, np.nan], np.float32)}, "weights must be finite .* position 2"),
    ({"alias": np.array([[1, 0], [1, 2], [1, 0]], np.uint32)}, "own list .* node 1"),
]


@pytest.mark.parametrize(("changed", "message"), DATA_RULES)
def test_verify_names_the_rule_that_the_data_breaks(changed, message, tmp_path):
    path = topology(**changed).write(tmp_path / "t.gl")
    with pytest.raises(gz.FormatError, match=message):
        _engine.verify_topology(path)


@pytest.mark.parametrize("section", range(6))
def test_verify_finds_a_flipped_bit_in_every_section(section, tmp_path):
    f = topology()
    offset = struct.unpack_from("<Q", f.header, 64 + 32 * section)[0]
    body = bytearray(f.body)
    body[offset - 4096 + 5] ^= 4
    f.body = bytes(body)
    with pytest.raises(gz.FormatError, match="checksum of section|indptr"):
        _engine.verify_topology(f.write(tmp_path / "t.gl"))


def test_sampling_a_damaged_file_is_an_error_not_a_crash(tmp_path):
    bad = topology(indices=np.array([0, 0xFFFFFFFE, 1], np.uint32)).write(tmp_path / "a.gl")
    with pytest.raises(gz.FormatError, match="neighbour at position 1"):
        gz.Graph(bad).sample([1], [-1])
    with pytest.raises(gz.FormatError, match="neighbour at position 1"):
        gz.Graph(bad).batch_random_fanout([1], 2)
    bad = topology(indptr=np.array([0, 1 << 60, 2, 3], np.uint64)).write(tmp_path / "b.gl")
    for call in (
        lambda g: g.sample([1], [-1]),
        lambda g: g.neighbors(1),
        lambda g: g.batch_random_walk([1], 3),
    ):
        with pytest.raises(gz.FormatError, match="indptr of node"):
            call(gz.Graph(bad))
