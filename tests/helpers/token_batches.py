"""Token ids by hand, and what an encoder sees of them."""

import torch
from torch import Tensor

CLS, SEP = 101, 102


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(counts: list[int], left: bool = False) -> dict[str, Tensor]:
    """[CLS] 1 2 … n [SEP] 0 0, or padded on the left."""
    width = max(counts) + 2
    rows = [[CLS, *range(1, n + 1), SEP] for n in counts]
    padded = [([0] * (width - len(r)) + r) if left else (r + [0] * (width - len(r))) for r in rows]
    ids = torch.tensor(padded)
    return {
        "input_ids": ids,
        "token_type_ids": torch.zeros_like(ids),
        "attention_mask": (ids > 0).long(),
    }


def read(batch: dict[str, Tensor]) -> list[list[int]]:
    """What the encoder sees, sentence by sentence."""
    pairs = zip(batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True)
    return [[token for token, seen in zip(ids, mask, strict=True) if seen] for ids, mask in pairs]


class EveryThird:
    """A token step without chance: every third token is shown as token 7, on every process alike."""

    stage = "tokens"

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        number = features["attention_mask"].cumsum(dim=1) * features["attention_mask"]
        shown = features["input_ids"].masked_fill((number > 1) & (number % 3 == 0), 7)
        return {**features, "input_ids": shown}
