"""What rows become that are stored smaller than they are read, by torch and numpy alone."""

from __future__ import annotations

import numpy as np
import torch

SMALL = ("float16", "bfloat16", "int8")


def rounded(x: np.ndarray, stored: str) -> torch.Tensor:
    if stored != "int8":
        return torch.from_numpy(x).to(getattr(torch, stored)).float()
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    return torch.from_numpy(scale * np.rint(x.astype(np.float64) / scale).astype(np.float32))
