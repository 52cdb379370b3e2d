"""A good model (all-MiniLM-L6-v2) adapted to a domain's unlabelled text: what it learns there, what
it forgets.

Four methods on the same sentences, batches of 64, 32 tokens, one epoch, dropout 0.1, bf16, one
seed: isotrope's preset `adapt`, its `simcse` (on the model's own pooling), and
sentence-transformers' MultipleNegativesRankingLoss (`mnrl`, its SimCSE) and GISTEmbedLoss (`gist`,
guided by the model as it was), both on a duplicated column and with their own trainer, so the order
of their sentences and their dropout masks are others.

    # the table's eight cells, on the domains' "test" setting
    python -m benchmarks.search.adapt RUNS --data DATA
    # the grid that chose the settings, on "dev"
    python -m benchmarks.search.adapt RUNS --data DATA --tune
    # only the table in docs/methods/adapt.md, from the results
    python -m benchmarks.search.adapt

A cell's result is written to docs/results/adapt when it is done and never computed again; a stopped
call goes on. "dev" measures SciFact among the abstracts that its train claims cite, at 128 tokens,
and STS-B dev alone.
"""

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from scipy.sparse import csr_array
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)

import isotrope
from benchmarks.paths import ROOT
from benchmarks.theirs import train_with_their_loss
from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.retrieval import per_query
from isotrope.evaluation.sets.public import banking_queries, load_retrieval_set, scifact_abstracts
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import STS_TASKS, load_sts
from isotrope.evaluation.significance import compare, compare_means
from isotrope.evaluation.sts import main_pairs, pair_similarities
from isotrope.store.cache import cache_folder
from isotrope.store.files import new_file, write_json
from isotrope.text.corpus import Texts, build_texts
from isotrope.text.files import find_sources
from isotrope.text.permutation import Permutation
from isotrope.text.tables import Columns
from isotrope.training.processes import environment

BACKBONE, SEED = "isotrope/minilm", 0
DOMAINS, METHODS = ("SciFact", "Banking77"), ("adapt", "simcse", "mnrl", "gist")
SENTENCES = {"test": 3000, "dev": 3000}
BATCH, LENGTH = 64, 32
RATES = (5e-6, 2e-5, 8e-5)  # the grid, the same for each method
SIMCSE_POOLING = "encoder.pooling=mean"  # the model's own
DOCS = ROOT / "docs"
RESULTS, PAGE = DOCS / "results" / "adapt", DOCS / "methods" / "adapt.md"
BEGIN, END = "<!-- table: made by benchmarks/search/adapt.py -->", "<!-- /table -->"


class Bf16:
    """Encodes in bf16, which is three times as fast on a CPU that has it, before and after alike."""

    def __init__(self, model: str, length: int | None) -> None:
        self.model = isotrope.load(model, max_length=length)

    def encode(self, sentences: list[str]) -> Any:
        with torch.autocast(self.model.device.type, torch.bfloat16):
            return self.model.encode(sentences, batch_size=64, show_progress_bar=False)


def text(domain: str, data: str, count: int, folder: Path) -> Path:
    """A file with a random sample of so many of the domain's distinct sentences."""
    whole, chosen = folder / f"{domain}.txt", folder / f"{domain}-{count}.txt"
    if not chosen.is_file():
        whole.write_text(
            "\n".join(" ".join(s.split()) for s in unlabelled(Path(data) / "domain", domain))
            + "\n",
            encoding="utf-8",
        )
        corpus = cleaned(whole)
        rows = Permutation(len(corpus), SEED)[np.arange(min(count, len(corpus)))]
        chosen.write_text("\n".join(corpus.dataset[np.sort(rows)]["text"]) + "\n", encoding="utf-8")
    return chosen


def unlabelled(folder: Path, domain: str) -> list[str]:
    """Every sentence of every abstract of SciFact (those that the test's claims cite too, but no
    claim), or Banking77's train split's queries.
    """
    if domain == "Banking77":
        return banking_queries(folder / "banking77", "train")[0]
    return [
        sentence
        for _, sentences in scifact_abstracts(folder / "scifact").values()
        for sentence in sentences
    ]


def cleaned(path: Path) -> Texts:
    return build_texts(find_sources([path]), Columns(), cache_folder("corpora"))


def train(method: str, rate: float, corpus: Path, folder: Path, overrides: list[str]) -> Path:
    """The model's folder."""
    if method in THEIR_LOSSES:
        return train_theirs(method, rate, corpus, folder)
    settings = [
        f"train.learning_rate={rate}",
        f"train.batch_size={BATCH}",
        f"train.max_length={LENGTH}",
        "train.precision=bf16",
        "train.eval_steps=100000",
        *([SIMCSE_POOLING] if method == "simcse" else []),
        *overrides,
    ]
    run = isotrope.train(
        corpus,
        output=folder,
        preset=method,
        model=BACKBONE,
        dev="none",
        labels="none",
        seed=SEED,
        overrides=settings,
        console=Console(),
    )
    return run.folder / "model"


def gist(model: SentenceTransformer) -> GISTEmbedLoss:
    """GISTEmbedLoss with the threshold and the temperature of `adapt`.

    At its defaults it does not train on a text that is given twice. The guide finds every positive
    at cosine 1, so without a margin nothing is filtered, not even the anchor among the anchors. With
    a margin, a temperature of 0.01 leaves a loss of 0.
    """
    guide = isotrope.load(BACKBONE, packed=False)
    return GISTEmbedLoss(model, guide, temperature=0.05, margin=0.2)


THEIR_LOSSES = {"mnrl": MultipleNegativesRankingLoss, "gist": gist}


def train_theirs(method: str, rate: float, corpus: Path, folder: Path) -> Path:
    """Train with a loss of sentence-transformers on each text beside itself."""
    texts = corpus.read_text(encoding="utf-8").splitlines()
    return train_with_their_loss(
        isotrope.load(BACKBONE, dropout=0.1, max_length=LENGTH, packed=False),
        {"anchor": texts, "positive": texts},
        THEIR_LOSSES[method],
        folder,
        batch_size=BATCH,
        learning_rate=rate,
        seed=SEED,
        bf16=True,
    )


def dev_corpus(domain: RetrievalSet) -> RetrievalSet:
    """Only what somebody finds relevant: a smaller search, for choosing settings."""
    if domain.own:
        return domain
    cited = np.unique(domain.grades.indices)
    return RetrievalSet(
        domain.name,
        domain.queries,
        [domain.corpus[i] for i in cited],
        csr_array(domain.grades[:, cited]),
    )


def measure(model: str, domain: str, setting: str, data: str, kept: Path) -> dict[str, Any]:
    """Per query the retrieval measures, per pair the cosines; kept in a file."""
    if not kept.is_file():
        encoder, texts = (
            Bf16(model, 128 if setting == "dev" else None),
            load_retrieval_set(data, domain, setting),
        )
        texts = dev_corpus(texts) if setting == "dev" else texts
        sets = sts(setting, data)
        queries, corpus = search_vectors(encoder, texts.queries, texts.corpus)
        found = {f"query/{k}": v for k, v in per_query(queries, corpus, texts).items()}
        pairs = main_pairs(sets, pair_similarities(encoder, sets))
        found |= {f"gold/{task}": gold for task, (gold, _) in pairs.items()}
        found |= {f"cosine/{task}": cosine for task, (_, cosine) in pairs.items()}
        with new_file(kept) as whole:
            np.savez(whole, **found)  # type: ignore[arg-type]
    with np.load(kept, allow_pickle=False) as file:
        return dict(file)


def sts(setting: str, data: str) -> Any:
    tasks, part = (STS_TASKS, "test") if setting == "test" else (("STSBenchmark",), "dev")
    sets = {task: load_sts(data, task, [part]) for task in tasks}
    return {task: {"test": s["dev"]} if setting == "dev" else s for task, s in sets.items()}


def cell(
    domain: str,
    method: str,
    rate: float,
    setting: str,
    args: argparse.Namespace,
    overrides: list[str],
) -> None:
    """Train, measure, compare, write."""
    tuned = f"-{rate:g}" + "".join(f"-{o}" for o in overrides) if setting == "dev" else ""
    name = f"{domain}-{method}{tuned}"
    target = RESULTS / ("tuning" if setting == "dev" else "") / f"{name}.json"
    if target.is_file():
        return
    folder = args.runs / setting
    folder.mkdir(parents=True, exist_ok=True)
    corpus, began = text(domain, args.data, SENTENCES[setting], folder), time.monotonic()
    model = train(method, rate, corpus, folder / name, overrides)
    trained = time.monotonic() - began
    old = measure(BACKBONE, domain, setting, args.data, folder / f"{domain}-before.npz")
    new = measure(str(model), domain, setting, args.data, folder / f"{name}.npz")
    result: dict[str, Any] = {
        "domain": domain,
        "method": method,
        "backbone": BACKBONE,
        "setting": setting,
        "learning_rate": rate,
        "overrides": overrides,
        "sentences": len(cleaned(corpus)),
        "batch_size": BATCH,
        "max_length": LENGTH,
        "precision": "bf16",
        "seed": SEED,
        "seconds": trained,
        "retrieval": {
            key.split("/")[1]: asdict(compare_means(old[key], new[key]))
            for key in old
            if "query/" in key
        },
        "sts": asdict(compare(pairs(old), pairs(new))),
        "environment": environment(),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    write_json(target, result)
    changes = {"ndcg@10": result["retrieval"]["ndcg@10"], "STS": result["sts"]}
    told = (
        f"{k} {100 * c['before']:.2f} → {100 * c['after']:.2f} ({c['verdict']}, p {c['p']:.3g})"
        for k, c in changes.items()
    )
    print(f"{name}: {', '.join(told)}; trained in {trained:.0f} s", flush=True)


def chosen(method: str) -> float:
    """The rate that moved nDCG@10 and STS-B together furthest up, on the dev settings of both
    domains.
    """
    gains = {}
    for rate in RATES:
        found = []
        for domain in DOMAINS:
            path = RESULTS / "tuning" / f"{domain}-{method}-{rate:g}.json"
            if not path.is_file():
                raise SystemExit(f"{path.name} is missing: run with --tune first")
            tuned = json.loads(path.read_text(encoding="utf-8"))
            found.append(tuned["retrieval"]["ndcg@10"]["difference"] + tuned["sts"]["difference"])
        gains[rate] = sum(found)
    return max(gains, key=lambda rate: gains[rate])


def pairs(found: dict[str, Any]) -> dict[str, Any]:
    return {
        key[5:]: (found[key], found["cosine/" + key[5:]])
        for key in found
        if key.startswith("gold/")
    }


def table() -> str:
    """The committed cells of the "test" setting, before and after."""
    rows = [
        "| domain | method | nDCG@10 | change (95 %) | p | STS, seven sets | change (95 %) | p |"
    ]
    rows += ["|---|---|--:|--:|--:|--:|--:|--:|"]
    for path in (RESULTS / f"{domain}-{method}.json" for domain in DOMAINS for method in METHODS):
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            cells = [change(found["retrieval"]["ndcg@10"]), change(found["sts"])]
            rows.append(f"| {found['domain']} | {found['method']} | {' | '.join(cells)} |")
    return "\n".join(rows) if len(rows) > 2 else "No run is committed yet."


def change(c: dict[str, Any]) -> str:
    before, after, difference, low, high = (
        100 * c[k] for k in ("before", "after", "difference", "low", "high")
    )
    return (
        f"{before:.2f} → {after:.2f} | {difference:+.2f} ({low:+.2f} … {high:+.2f}) | {c['p']:.3g}"
    )


def page() -> str:
    """The method's page with its table as the results have it."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="?",
        help="folder for models and what they measured; may be deleted afterwards",
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("ISOTROPE_DATA"),
        help="folder that holds domain/ and senteval/",
    )
    parser.add_argument(
        "--tune", action="store_true", help="the grid of learning rates, on the dev settings"
    )
    parser.add_argument(
        "--domain", choices=DOMAINS, action="append", help="one of them; by default both"
    )
    parser.add_argument(
        "--method", choices=METHODS, action="append", help="some of them; by default all"
    )
    parser.add_argument(
        "--rate", type=float, action="append", help="with --tune: instead of the grid"
    )
    parser.add_argument(
        "--set", action="append", default=[], help="with --tune: key=value over the preset's keys"
    )
    args = parser.parse_args()
    for domain in (args.domain or DOMAINS) if args.runs else ():
        for method in args.method or METHODS:
            for rate in (args.rate or RATES) if args.tune else [chosen(method)]:
                cell(
                    domain,
                    method,
                    rate,
                    "dev" if args.tune else "test",
                    args,
                    args.set if args.tune else [],
                )
                PAGE.write_text(page(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
