"""The small random edge list that the tests of gz.ingest give it in many forms."""

import numpy as np

N, E = 50, 400
RNG = np.random.default_rng(7)
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)
SRC[0], DST[1] = N - 1, N - 1
ORDER = np.lexsort((np.arange(E), SRC, DST))
IN = "edges/node__to__node/in.gl"


def text(delimiter=",", header="src,dst\n", end="\n"):
    return header + end.join(f"{s}{delimiter}{d}" for s, d in zip(SRC, DST, strict=True)) + end
