"""Does `isotrope improve` choose well? Its choices without labels, judged by labels that it never
sees.

    # all cells; one that is done is not run again
    python -m benchmarks.search.choice WORK --data DATA
    # cells whose names hold all these words
    python -m benchmarks.search.choice WORK --data DATA --only minilm CACM

A cell is a start model and a collection. `improve` gets the collection's documents (2,500 at most:
all that are relevant to a query, and others at random), no query and no label. Then labels judge
every candidate of the race: nDCG@10 of at most 300 queries, all texts cut at 128 tokens. Where
there are classes, a text of the query's class is relevant. Beside the choice stand fixed policies:
keep, whiten always, crops always, TSDAE always, and the best on STS-B's dev set.

    # adds TSDAE to the cells that are done
    python -m benchmarks.search.choice WORK --data DATA --tsdae

TSDAE is sentence-transformers' loss, one pass over the documents; it takes architectures like
BERT's alone.

    # the whole search: the model, BM25's share, both, and what was chosen
    python -m benchmarks.search.choice WORK --data DATA --search --minutes 3 --only minilm

Each search is that of `isotrope improve`: the given model with the share of BM25 that found most on
the choosing documents, and the same with the best candidate. Labels compare all with the given model
alone.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.sparse import csr_array
from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss

import isotrope
from benchmarks.paths import RESULTS
from benchmarks.theirs import denoising_columns, train_with_their_loss
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.search import Search, encoder_search, search_with
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.public import load_retrieval_set, scifact_abstracts
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, same_class
from isotrope.evaluation.sets.senteval import load_sts, load_transfer
from isotrope.evaluation.significance import compare_means
from isotrope.improvement.candidates import Candidate, CandidateTrainer
from isotrope.improvement.clock import Clock
from isotrope.improvement.improve import Improvement
from isotrope.improvement.measure import BM25_SHARES, RaceFiles
from isotrope.improvement.result import RaceResult
from isotrope.improvement.scores import KEEP, judging_tasks
from isotrope.improvement.steps import FittingSet
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet, texts_to_encode
from isotrope.store.files import write_json
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.text.pseudo_queries import PseudoQueries
from isotrope.training.processes import environment
from isotrope.types import Vector

TARGET = RESULTS / "choice"
DOCUMENTS, QUERIES, SEED = 2500, 300, 0
DOCUMENTS_FILE = "documents.jsonl"
SEARCHED_MODELS = ("minilm", "small")  # whose whole searches are judged
MODELS: dict[str, tuple[str, str | None, float, float, tuple[str, ...]]] = {
    # name -> model, pooling, minutes for long documents, minutes for single sentences, teachers; on
    # two cores
    "tiny": ("isotrope/tiny", None, 8.0, 3.0, ()),
    "small": ("isotrope/small", None, 8.0, 3.0, ()),
    "small-taught": ("isotrope/small", None, 8.0, 3.0, ("isotrope/minilm",)),
    "minilm": ("isotrope/minilm", None, 10.0, 5.0, ()),
    "minilm-cls": ("isotrope/minilm", "cls", 8.0, 4.0, ()),
}
LONG = ("SciFact", "CACM", "NPL")
RETRIEVAL = ("SciFact", "CACM", "NPL", "Banking77", "StackOverflow")
CLASSES = ("TREC", "SUBJ", "MR")
TSDAE_BATCH, TSDAE_RATE, TSDAE_LENGTH = 16, 3e-5, 64


def collection(data: str, name: str) -> tuple[RetrievalSet, list[str]]:
    """Queries with their relevant documents, and the documents' titles ("" where there is none)."""
    if name in CLASSES:
        parts = load_transfer(data, name).values()  # TREC has two
        texts, labels = (
            [one for part in parts for one in getattr(part, side)] for side in ("first", "labels")
        )
        return halves(name, texts, [str(label) for label in labels]), []
    domain = load_retrieval_set(data, name, "test")
    titles = [""] * len(domain.corpus)
    if name == "SciFact":
        titles = [
            title for title, _ in scifact_abstracts(Path(data) / "domain" / "scifact").values()
        ]
    elif name == "CACM":
        rows = (
            (Path(data) / "domain" / "cacm" / "corpus.jsonl")
            .read_text(encoding="utf-8")
            .splitlines()
        )
        titles = [json.loads(row)["title"] or "" for row in rows]
    if domain.own:  # one half of the texts searches the other
        assert domain.labels is not None
        domain, titles = halves(name, domain.queries, [str(label) for label in domain.labels]), []
    return domain, titles


def halves(name: str, texts: Sequence[str], labels: Sequence[str]) -> RetrievalSet:
    """Even texts find odd ones of their class."""
    mixed = np.random.default_rng(SEED).permutation(len(texts))
    one, two = ([(texts[i], labels[i]) for i in mixed[start::2]] for start in (0, 1))
    (queries, of), (corpus, others) = (zip(*part, strict=True) for part in (one, two))
    return same_class(name, list(queries), list(of), list(corpus), list(others))


def part_of(
    domain: RetrievalSet, titles: list[str], documents: int = DOCUMENTS
) -> tuple[RetrievalSet, list[str]]:
    """At most 300 queries and so many documents: relevant ones first, where most are not relevant
    to any query.
    """
    generator = np.random.default_rng(SEED)
    asked = np.sort(generator.permutation(np.flatnonzero(np.diff(domain.grades.indptr)))[:QUERIES])
    grades = csr_array(domain.grades[asked])
    found = np.unique(grades.indices)
    order = generator.permutation(len(domain.corpus))
    if len(found) <= documents:
        order = np.concatenate([found, np.setdiff1d(order, found, assume_unique=True)])
    kept = generator.permutation(order[:documents])
    queries, corpus = [domain.queries[i] for i in asked], [domain.corpus[i] for i in kept]
    cut_down = replace(
        domain, queries=queries, corpus=corpus, grades=csr_array(grades[:, kept]), labels=None
    )
    return cut_down, [titles[i] for i in kept] if titles else [""] * len(kept)


def write_documents(domain: RetrievalSet, titles: Sequence[str], path: Path) -> None:
    """A JSON line a document. The text of a titled one does not repeat its title."""
    rows = (
        {"title": title, "text": text.removeprefix(title).strip()}
        for text, title in zip(domain.corpus, titles, strict=True)
    )
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


def improved(
    model_name: str,
    domain: RetrievalSet,
    titles: Sequence[str],
    work: Path,
    minutes: float,
    teachers: Sequence[str],
    console: Console,
) -> Improvement:
    """Improve a model for the documents of a collection. A cell that was stopped goes on."""
    model, pooling, *_ = MODELS[model_name]
    work.mkdir(parents=True, exist_ok=True)
    documents = work / DOCUMENTS_FILE
    if not documents.is_file():
        write_documents(domain, titles, documents)
    return isotrope.improve(
        model,
        documents,
        output=work / "improved",
        minutes=minutes,
        seed=SEED,
        pooling=pooling,
        teachers=teachers,
        console=console,
    )


def cell(
    data: str, name: str, model_name: str, work: Path, factor: float, console: Console
) -> dict[str, Any]:
    """Improve one model for one collection, and judge all candidates by labels."""
    _, _, long, short, teachers = MODELS[model_name]
    minutes = factor * (long if name in LONG else short)
    domain, titles = part_of(*collection(data, name))
    found = improved(model_name, domain, titles, work, minutes, teachers, console)
    tasks: tuple[RetrievalSet, GradedPairs] = (
        domain,
        load_sts(data, "STSBenchmark", ["dev"])["dev"],
    )
    began = time.monotonic()
    labels, sts = judged(found, MODELS[model_name][0], work / DOCUMENTS_FILE, tasks)
    record = found.record
    return {
        "model": model_name,
        "collection": name,
        "minutes": minutes,
        "seconds": record["seconds"],
        "processor_time": Clock.now is time.process_time,
        "judging_seconds": time.monotonic() - began,
        "teachers": record["teachers"],
        "search": record["search"],
        "documents": len(domain.corpus),
        "queries": len(labels[KEEP]),
        "titled": sum(map(bool, titles)),
        "judged_by": record["notes"],
        "left_out": record["left_out"],
        "choice": found.choice,
        "policies": policies(found, labels, sts),
        "similarity": record["similarity"],
        "environment": environment(),
        "candidates": {
            of: {
                "labels": float(scores.mean()),
                "sts": sts[of],
                "tasks": (tasks_of := record["table"][of]),
                "self_made": float(np.mean([tasks_of[task] for task in judging_tasks(tasks_of)])),
            }
            for of, scores in labels.items()
            if of in record["table"]
        },
    }


def judged(
    found: Improvement, model: str, documents: Path, tasks: tuple[RetrievalSet, GradedPairs]
) -> tuple[dict[str, Vector], dict[str, float]]:
    """Candidate or search with BM25 -> nDCG@10 of each query; candidate -> STS-B dev."""
    result = RaceResult.model_validate(found.record)
    held_out = result.documents - result.fitting
    source = read_text(documents)
    trainer = CandidateTrainer(model, source, held_out, result.fitting, SEED, found.folder)
    files = RaceFiles.of(found.folder, result.plan)
    steps: dict[Candidate, dict[str, str]] = {}  # encoder -> candidate -> the post step after it
    for name, made in result.made.items():
        steps.setdefault(made.encoder, {})[name] = made.step

    labels: dict[str, Vector] = {}
    sts: dict[str, float] = {}
    nothing = FittingSet([], PseudoQueries(), SEED, np.arange(0))
    searches = TaskSet([tasks[0]])
    for candidate, names in steps.items():
        texts = texts_to_encode(tasks, nothing, ())
        embeddings = embed_texts(trainer.encoder(candidate), *texts, JUDGED_LENGTH)
        for name, step in names.items():
            encoder = files.step(candidate, name).apply(embeddings) if step else embeddings
            labels[name] = tasks[0].score(encoder)
            sts[name] = float(tasks[1].score(encoder).mean())
        if candidate.name == KEEP:
            for share in BM25_SHARES:
                scores = searches.score_hybrid(embeddings, share)
                labels[search_name(share)] = scores[tasks[0].name]
    return labels, sts


def search_cell(
    data: str,
    name: str,
    model_name: str,
    work: Path,
    minutes: float | None,
    console: Console,
) -> dict[str, Any]:
    """Improve one model for one collection, and judge the whole search by labels."""
    model, _, long, short, _ = MODELS[model_name]
    minutes = minutes or (long if name in LONG else short)
    domain, titles = part_of(*collection(data, name))
    found = improved(model_name, domain, titles, work, minutes, (), console)
    result = RaceResult.model_validate(found.record)
    candidates = {
        candidate: embed_candidate(found, model, work / DOCUMENTS_FILE, candidate, domain)
        for candidate in dict.fromkeys((KEEP, result.chosen))
    }
    words = Bm25Index.of(domain.corpus).search(domain.queries)
    shares = result.bm25_shares
    searches = {
        "model": (KEEP, 0.0),
        "model and BM25": (KEEP, shares[KEEP]),
        "new model": (result.chosen, 0.0),
        "new model and BM25": (result.chosen, shares[result.chosen]),
        "chosen": (KEEP, 0.0),
    }
    if result.search is not None:
        searches["chosen"] = result.search.model, result.search.bm25_share
    scores = {
        policy: domain.score_search(fused_search(candidates[of], domain, words, share))
        for policy, (of, share) in searches.items()
    }
    return {
        "model": model_name,
        "collection": name,
        "minutes": minutes,
        "seconds": result.seconds,
        "documents": len(domain.corpus),
        "queries": len(scores["model"]),
        "choice": result.choice,
        "promised": result.search and result.search.verdict.record(),
        "environment": environment(),
        "searches": {
            policy: {
                "candidate": searches[policy][0],
                "bm25_share": searches[policy][1],
                **asdict(compare_means(scores["model"], each)),
            }
            for policy, each in scores.items()
        },
    }


def embed_candidate(
    found: Improvement, model: str, documents: Path, name: str, domain: RetrievalSet
) -> Embeddings:
    """The vectors of a collection by one candidate of a race."""
    result = RaceResult.model_validate(found.record)
    source = read_text(documents)
    held_out = result.documents - result.fitting
    trainer = CandidateTrainer(model, source, held_out, result.fitting, SEED, found.folder)
    made = result.made[name]
    encoder = trainer.encoder(made.encoder)
    embeddings = embed_texts(encoder, domain.queries, domain.corpus, JUDGED_LENGTH)
    if not made.step:
        return embeddings
    step = RaceFiles.of(found.folder, result.plan).step(made.encoder, name)
    return step.apply(embeddings)


def fused_search(
    embeddings: Embeddings, domain: RetrievalSet, words: Search, bm25_share: float
) -> Search:
    """The search of a collection by vectors and words."""
    by_model = encoder_search(embeddings, domain.queries, domain.corpus)
    if not bm25_share:
        return by_model
    return search_with([by_model, words], [1 - bm25_share, bm25_share])


def search_name(bm25_share: float) -> str:
    """A search by the model as it is, with BM25."""
    return f"search with {bm25_share} BM25"


def with_tsdae(
    done: dict[str, Any],
    data: str,
    name: str,
    model_name: str,
    work: Path,
    _factor: float,
    console: Console,
) -> dict[str, Any]:
    """A cell that is done, with the policy TSDAE; as it was, if TSDAE cannot train this model."""
    if "TSDAE" in done["policies"]:
        return done
    model, pooling, *_ = MODELS[model_name]
    rows = [
        json.loads(line)
        for line in (work / DOCUMENTS_FILE).read_text(encoding="utf-8").splitlines()
    ]
    lines = [" ".join(f"{row['title']} {row['text']}".split()) for row in rows]
    start = isotrope.load(model, pooling or "mean", max_length=TSDAE_LENGTH, packed=False)
    try:
        trained = train_with_their_loss(
            start,
            denoising_columns(lines, SEED),
            DenoisingAutoEncoderLoss,
            work / "tsdae",
            batch_size=TSDAE_BATCH,
            learning_rate=TSDAE_RATE,
            seed=SEED,
        )
    except (AttributeError, TypeError, ValueError) as error:  # no decoder of this architecture
        console.print(f"TSDAE: {error}")
        return done
    task = part_of(*collection(data, name))[0]
    of: list[Vector] = []
    for encoder in (isotrope.load(model, pooling=pooling), isotrope.load(trained)):
        of.append(task.score(embed_texts(encoder, task.queries, task.corpus, JUDGED_LENGTH)))
    policy = {"candidate": "TSDAE", "texts": len(lines), **asdict(compare_means(of[0], of[1]))}
    return done | {"policies": done["policies"] | {"TSDAE": policy}}


def policies(
    found: Improvement,
    labels: dict[str, Vector],
    sts: dict[str, float],
) -> dict[str, dict[str, Any]]:
    """Policy -> the candidate that it takes, and by how much labels change against keep."""
    result = RaceResult.model_validate(found.record)
    best = max(found.record["table"], key=lambda name: labels[name].mean())
    crops = {
        name: made.encoder.pairs
        for name, made in result.made.items()
        if made.encoder.recipe == "crops" and made.encoder.share == 1 and not made.step
    }
    whitened = [
        name
        for name, made in result.made.items()
        if made.step == "full whitening" and not made.encoder.recipe
    ]
    taken: dict[str, str | None] = {
        "improve": found.choice,
        "the best by labels": best,
        "keep": KEEP,
        "map": "query map",
        "hybrid": search_name(result.search.bm25_share) if result.search else None,
        "whiten": whitened[0] if whitened else None,
        "crops": max(crops, key=crops.__getitem__, default=None),
        "the best by STS-B dev": max(sts, key=sts.__getitem__),
    }
    return {
        policy: {"candidate": name, **asdict(compare_means(labels[KEEP], labels[name]))}
        for policy, name in taken.items()
        if name is not None and name in labels
    }


def run_search_cells(args: argparse.Namespace, console: Console) -> None:
    """Judge the search of each cell that is not done."""
    results = args.results or TARGET / "search"
    results.mkdir(parents=True, exist_ok=True)
    words = {word.lower() for word in args.only}
    for model in SEARCHED_MODELS:
        for name in (*RETRIEVAL, *CLASSES):
            place = f"{model}-{name.lower()}"
            target = results / f"{place}.json"
            if target.is_file() or not words <= {model, name.lower()}:
                continue
            console.rule(place)
            work = args.work / place
            record = search_cell(args.data, name, model, work, args.minutes, console)
            write_json(target, record)


def main(judge: Callable[..., dict[str, Any]] = cell) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder for the races")
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="words in the cells' names")
    parser.add_argument("--results", type=Path, help="a folder for the records")
    parser.add_argument(
        "--factor", type=float, default=1.0, help="of the minutes: 2 gives one core the same work"
    )
    parser.add_argument(
        "--processor-time", action="store_true", help="count it, not the clock's: beside other work"
    )
    parser.add_argument("--tsdae", action="store_true", help="add TSDAE to the cells that are done")
    parser.add_argument("--search", action="store_true", help="judge the whole search")
    parser.add_argument("--minutes", type=float, help="for each cell, with --search")
    args = parser.parse_args()
    if args.processor_time:
        Clock.now = staticmethod(time.process_time)
    console = Console()
    if args.search:
        run_search_cells(args, console)
        return
    args.results = args.results or TARGET
    args.results.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        for name in (*RETRIEVAL, *CLASSES):
            place = f"{model}-{name.lower()}"
            target = args.results / f"{place}.json"
            words = [word.lower() for word in args.only]
            if target.is_file() != args.tsdae or not all(
                word in (model, name.lower()) for word in words
            ):
                continue
            console.rule(place)
            asked = (args.data, name, model, args.work / place, args.factor, console)
            done = json.loads(target.read_text(encoding="utf-8")) if args.tsdae else {}
            write_json(target, with_tsdae(done, *asked) if args.tsdae else judge(*asked))


if __name__ == "__main__":
    main()
