"""A small collection of documents with titles, for tests: each document has words of its own."""

import json
from pathlib import Path
from typing import Any

import torch

from helpers.words import WORDS, sentences
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.steps import Basis
from isotrope.text.corpus import Document
from isotrope.text.pseudo_queries import pseudo_queries


def write_library(path: Path, count: int = 140, titles: bool = True, seed: int = 0) -> Path:
    """A .jsonl file of so many documents of two paragraphs, which draw half of their words from a
    few of their own.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(among: list[str], words: int) -> list[str]:
        return [among[i] for i in torch.randint(len(among), (words,), generator=generator).tolist()]

    lines = []
    for _ in range(count):
        own = draw(WORDS, 6)
        text = "\n\n".join(
            " ".join(w for pair in zip(draw(own, 10), draw(WORDS, 10), strict=True) for w in pair)
            for _ in "ab"
        )
        lines.append(json.dumps({"title": " ".join(own[:4]) if titles else "", "text": text}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def race_record(choice: str = "soft", **more: Any) -> dict[str, Any]:
    """What a race of three candidates found."""
    gain = {"gain": 0.1, "low": 0.05, "high": 0.15, "p": 0.001, "others": 0.1, "allowed": True}
    verdict = Verdict(
        "better",
        "my model",
        "soft",
        "60 of your own documents",
        "MRR@10 × 100",
        (0.25, 0.35),
        advice="Use soft",
    )
    if choice == "keep":
        verdict = Verdict.not_tested(before="my model", after="soft", advice="Keep my model.")
    return {
        "model": "my model",
        "verdict": verdict.record(),
        "choice": choice,
        "finished": True,
        "seconds": 90.0,
        "minutes": 2.0,
        "documents": 300,
        "judged_by": ["a: 60 documents"],
        "left_out": {},
        "made": {"keep": {"step": ""}, "soft": {"step": "soft whitening"}, "<b>odd": {"step": ""}},
        "hybrid": {"name": "search with 0.3 BM25", "gain": 0.12, "low": 0.05, "high": 0.2},
        "table": {
            "keep": {"a": 0.2, "b": 0.3},
            "soft": {"a": 0.4, "b": 0.3},
            "<b>odd": {"a": 0.1, "b": 0.1},
        },
        "gains": {"soft": gain, "<b>odd": {**gain, "gain": -0.15, "p": 1.0, "allowed": False}},
        "similarity": None,
        "searched": None,
        "switch": {"documents_stay": False},
    } | more


def page(place: int) -> Document:
    """Three sentences with a rare word between all others, which only a search by words knows."""
    words = " ".join(sentences(3, seed=place)).split()
    return Document(f"Number {place}", [" ".join(f"{word} rare{place}" for word in words)])


def basis(size: int) -> Basis:
    """Documents, and what they ask."""
    documents = [page(1000 + place) for place in range(size)]
    return Basis([document.text for document in documents], pseudo_queries(documents), 0, documents)
