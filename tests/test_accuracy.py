"""The judge of the training tests: how often it errs, by simulation."""

from __future__ import annotations

import accuracy
import numpy as np
import pytest

SPREAD = 0.0019  # of a pair's difference, as measured
ROUNDS = 100_000


def rejected(loss: float, spread: float) -> float:
    rng = np.random.default_rng(0)
    differences = rng.normal(-loss, spread, (ROUNDS, len(accuracy.SEEDS)))
    return (accuracy.farthest(differences) >= accuracy.MARGIN).mean()


@pytest.mark.parametrize("spread", [SPREAD, 1.5 * SPREAD])
def test_a_false_alarm_is_rarer_than_once_in_a_thousand_runs(spread):
    assert rejected(0, spread) < 1e-3


@pytest.mark.parametrize("spread", [SPREAD, 1.5 * SPREAD, 10 * SPREAD])
def test_a_loss_is_found(spread):
    assert rejected(0.03, spread) > 0.999
    assert rejected(accuracy.MARGIN, spread) == pytest.approx(accuracy.LEVEL, abs=5e-4)


def test_noise_that_would_hide_a_loss_is_no_pass():
    """As when the two sides are not paired: 1.4 points from seed to seed, on either side."""
    assert rejected(0, 0.02) > 0.9


def test_the_verdict_names_both_sides():
    with pytest.raises(AssertionError, match=r"ours \[0.7  0.71\], theirs \[0.75 0.77\]: on average -0.0550"):
        accuracy.assert_equivalent([0.70, 0.71], [0.75, 0.77])
    accuracy.assert_equivalent([0.7, 0.71, 0.72, 0.7], [0.701, 0.711, 0.719, 0.699])
