"""How the training tests train and judge: splits, settings, and when two sets of accuracies agree.

The level to reach is that of Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018), who train
on 20 random nodes of each class of these graphs and test on the rest: GraphSAGE (mean) 79.2 % on Cora, 71.6 %
on Citeseer. They search for hyperparameters, stop by a validation set and keep the largest component alone;
nothing of that is done here.

Both sides of a pair have the same nodes to train on, the same initial weights and no dropout, so that what is
left of chance is the sampled neighbours. Accuracies vary by 1.4 points from seed to seed, differences of a
pair by 0.19 (DGL on Cora, 40 seeds). tests/test_accuracy.py says what can be seen at that.
"""

from __future__ import annotations

import numpy as np
import scipy.stats

PUBLISHED = {"cora": 0.792, "citeseer": 0.716}
LEAST = {"cora": PUBLISHED["cora"] - 0.04, "citeseer": PUBLISHED["citeseer"] - 0.08}
SEEDS = range(6)
HIDDEN, EPOCHS = 64, 15
ADAM = {"lr": 0.02, "weight_decay": 0.03}  # a strong decay in place of dropout
MARGIN, LEVEL = 0.02, 0.999


def training_nodes(labels: np.ndarray, seed: int, per_class: int = 20) -> np.ndarray:
    """A mask of random nodes, as many of each class."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        mask[rng.choice(np.flatnonzero(labels == label), per_class, replace=False)] = True
    return mask


def farthest(differences: np.ndarray) -> np.ndarray:
    """How far from zero the mean of paired differences may be: the end of its confidence interval."""
    n = differences.shape[-1]
    error = differences.std(axis=-1, ddof=1) / n**0.5
    return np.abs(differences.mean(axis=-1)) + scipy.stats.t.ppf(LEVEL, n - 1) * error


def assert_equivalent(ours: list[float], theirs: list[float]) -> None:
    """The confidence interval of the mean difference, paired by seed, lies within the margin.

    An equivalence test: a real loss of the margin passes once in a thousand times, however large the spread
    is. Too few seeds or too much noise fail it too.
    """
    differences = np.subtract(ours, theirs)
    far = farthest(differences)
    assert far < MARGIN, (
        f"ours {np.round(ours, 4)}, theirs {np.round(theirs, 4)}: on average {differences.mean():+.4f}, "
        f"and that is certain to {far - abs(differences.mean()):.4f} only; {MARGIN} is allowed for both"
    )
