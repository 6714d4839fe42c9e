"""What a graph has that belongs to no node and no edge: kept as text in store.json."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch

import gz

META = "pyg"  # store.json's meta entry


def encode_extras(extras: dict[Any, Any]) -> str:
    buffer = io.BytesIO()
    torch.save(extras, buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def decode_extras(text: str) -> dict[Any, Any]:
    return torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True)


def extras_of(store: gz.Store) -> dict[Any, Any]:
    """By name; what belongs to one type of several, by (type, name)."""
    text = store.manifest.meta.get(META)
    return decode_extras(text) if text else {}
