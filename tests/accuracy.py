"""How the training tests judge: the splits they train on and when two sets of accuracies are the same.

The level to reach is that of Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018), who train
on 20 random nodes of each class of these graphs and test on the rest: GraphSAGE (mean) 79.2 % on Cora, 71.6 %
on Citeseer. They search for hyperparameters, stop by a validation set and keep the largest component alone;
nothing of that is done here.
"""

from __future__ import annotations

import numpy as np
import scipy.stats

PUBLISHED = {"cora": 0.792, "citeseer": 0.716}
LEAST = {"cora": PUBLISHED["cora"] - 0.04, "citeseer": PUBLISHED["citeseer"] - 0.08}


def training_nodes(labels: np.ndarray, seed: int, per_class: int = 20) -> np.ndarray:
    """A mask of random nodes, as many of each class."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        mask[rng.choice(np.flatnonzero(labels == label), per_class, replace=False)] = True
    return mask


def assert_equivalent(ours: list[float], theirs: list[float], margin: float = 0.02) -> None:
    """The 95 % confidence interval of the mean difference, paired by seed, lies within the margin.

    An equivalence test: too few seeds or too much noise fail it too.
    """
    difference = np.subtract(ours, theirs)
    n = len(difference)
    half = scipy.stats.t.ppf(0.975, n - 1) * difference.std(ddof=1) / n**0.5
    mean = difference.mean()
    assert abs(mean) + half < margin, (
        f"ours {np.round(ours, 4)}, theirs {np.round(theirs, 4)}: the difference is {mean:+.4f} ± {half:.4f}"
    )
