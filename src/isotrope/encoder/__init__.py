"""Encoders: loading, pooling, saving. Student or teacher alike; knows no objective."""

from isotrope.encoder.export import save
from isotrope.encoder.load import load

__all__ = ["load", "save"]
