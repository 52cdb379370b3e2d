"""Writes every generated table of the documents from the committed result files; --check fails
where one is stale.

python tools/tables.py [--check]

Whole tables go to docs/results/**/table.md. A page has at most a few rows, between the markers of a
block.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import compared
import measured
import papers
import picture
import probes
import promised
import speed
import teachers
from grid import RESULTS, read
from scale import scale_checked, scale_costs

DOCS = RESULTS.parent
ROOT = DOCS.parent


Block = Callable[[], str]
# page -> its blocks, each by its name
PAGES: dict[str, dict[str, Block]] = {
    "README.md": {
        "quickstart": measured.quickstart,
    },
    "docs/guide.md": {"methods": compared.methods},
    "docs/findings.md": {
        "equal": partial(compared.against_simcse, "fair", "fair-cpu"),
        "second": partial(compared.against_simcse, "fair-cold"),
    },
    "docs/improve.md": {
        "policies": measured.policies,
        "promised": partial(promised.shares, "minilm"),
        "maps": partial(
            measured.ranking_map,
            "minilm",
            (
                "map",
                "encoder, queries only",
                "encoder",
                "search with 0.3 BM25",
                "whitening 0.25 fitted on pseudo-queries",
                "whitening 0.25 fitted on documents",
            ),
        ),
    },
    "docs/compress.md": {"kept": measured.kept},
    "docs/whiten.md": {"whitening": measured.whitening_by_labels},
    "docs/evaluate.md": {"ranking": measured.ranking_short},
    "docs/encode.md": {"scale_costs": scale_costs, "scale_checked": scale_checked},
    "docs/methods/whitenedcse.md": {"first_step": measured.first_step_short},
    "docs/methods/others.md": {"baselines": measured.baselines_short},
    "docs/performance.md": {
        "step": speed.step,
        "encode": speed.encode,
        "bits": partial(speed.bits, "bf16", "minilm", "wiki_train_00"),
        "bits_hidden": partial(speed.bits, "VNNI", "minilm", "wiki_train_00"),
        "bits_avx2": partial(speed.bits, "AVX2", "minilm", "wiki_train_00"),
        "cores": speed.cores,
        "million": speed.million,
    },
}
# folder of docs/results -> title, the command that makes its numbers, and its tables with what each
# says
TABLES: dict[str, tuple[str, str, dict[str, Block]]] = {
    "choice": ("How well `isotrope improve` chooses", "python -m benchmarks.search.choice WORK --data DATA", {
        "nDCG@10 × 100 by labels that the command never sees. An arrow is a significant change against *keep*; *lost* "
        "is the distance to the best candidate; *order* is Spearman's correlation of the candidates' scores with and "
        "without labels.": measured.choices,
        "The fixed policies beside it: the mean gain, and how often it is significantly better / worse.":
            measured.policies,
        "Races in which maps and encoders learn from rankings: MiniLM, twenty minutes of one core (ten for single "
        "sentences), and isotrope/small as it ships now, sixteen (six); beside other work; those that are done.":
            partial(measured.choices, measured.RANKED),
        "The same races: change of nDCG@10 × 100 by labels.": measured.ranked_policies,
        "Earlier races, in which \"half → half\" judged long documents too.": measured.halves,
        "Whole searches (`--search`), MiniLM: nDCG@10 × 100 by labels of the given model, and what changes with the "
        "share of BM25, the best new model, both, and the search that was chosen, with 95 % intervals.":
            partial(promised.chosen_searches, "minilm"),
        "The same searches for isotrope/small.": partial(promised.chosen_searches, "small"),
    }),
    "promised": ("Promised and true gains", "python -m benchmarks.search.promised WORK --data DATA", {
        "MiniLM: the share of BM25 that the choosing documents prefer, the gain that the judging documents promise, "
        "and the gain in nDCG@10 × 100 by labels with its 95 % interval. *lost* is the distance to the best share.":
            partial(promised.shares, "minilm"),
        "The same for isotrope/small.": partial(promised.shares, "small"),
        "MiniLM: promised gains and those by labels, of models and of a model with 0.3 BM25.":
            partial(promised.models, "minilm"),
        "isotrope/small, in the same way.": partial(promised.models, "small"),
        "Variants of the tasks: promised minus true gain, over 13 candidates and both models. The first two columns "
        "are of the collections on which a variant was to be chosen (SciFact, Banking77, TREC, MR).": promised.variants,
    }),
    "ranking-map": ("Learning from rankings", "python -m benchmarks.search.ranking_map WORK --data DATA", {
        "MiniLM: nDCG@10 × 100 by labels, and in brackets the mean score of the tasks from held-out documents. The map "
        "follows BM25 and the model in equal parts, on queries only; the rows below it each change one thing. 2,500 "
        "documents of each collection, one run.": partial(measured.ranking_map, "minilm"),
        "The same for isotrope/small.": partial(measured.ranking_map, "small"),
        "The same for isotrope/tiny.": partial(measured.ranking_map, "tiny"),
    }),
    "teachers": ("What a stronger model teaches",
        "python -m benchmarks.search.teachers CACHE --data DATA --teacher FOLDER", {
        "MiniLM, with all-mpnet-base-v2 as the teacher: nDCG@10 × 100 by labels, and gains with 95 % intervals. 1,500 "
        "documents of each collection, queries only, one run.": partial(teachers.searches, "minilm"),
        "MiniLM: gains of maps, alone / with 0.3 BM25 in the search. The first learns from 0.5 teacher + 0.5 BM25; the "
        "others change one thing.": partial(teachers.settings, "minilm"),
        "isotrope/small, in the same way: nDCG@10 × 100 by labels, and gains.": partial(teachers.searches, "small"),
        "isotrope/small: gains of maps, alone / with 0.3 BM25 in the search.": partial(teachers.settings, "small"),
        "Gates, by the tasks from held-out documents: whether the teacher, or the fused list, finds more than the "
        "student.": teachers.gates,
        "How often each gate is right, over all maps with a teacher: open where labels show a gain, closed where they "
        "do not.": teachers.counted_gates,
    }),
    "probes": ("Searches that change without training", "python -m benchmarks.search.probes CACHE --data DATA", {
        "MiniLM alone: nDCG@10 × 100 by labels, and gains of queries that move towards the consensus with BM25, and of "
        "a bias against documents that are near to everything. 1,500 documents of each collection, one run; rate, "
        "temperature and steps were chosen on CACM.": partial(probes.gains, "minilm", "alone"),
        "MiniLM with 0.3 BM25 in the search, before and after.": partial(probes.gains, "minilm", "with_bm25"),
        "isotrope/small alone.": partial(probes.gains, "small", "alone"),
        "isotrope/small with 0.3 BM25 in the search.": partial(probes.gains, "small", "with_bm25"),
    }),
    "false-better": ("False *better*, and power", "python -m benchmarks.search.false_better", {
        "Races of 36 candidates without any true gain: how many end with *better*. 2,000 races a row.":
            measured.false_better,
        "Races in which one post step (map) or one training, with all that is made from it, has a true gain: how many "
        "end with *better*, and the mean true gain of what is chosen, in points. 2,000 races a row.":
            measured.found_gains,
    }),
    "starts": ("The best of three models", "python -m benchmarks.search.starts WORK --data DATA", {
        "`improve isotrope/small --other-model isotrope/tiny --other-model isotrope/minilm`, each as "
        "it is: what is chosen without labels, with the 95 % interval of its gain, and nDCG@10 × 100 of all "
        "three by labels.": measured.starts,
    }),
    "compress": ("Students", "python -m benchmarks.students.students, .query_side and .domain_student", {
        "Students of all-MiniLM-L6-v2 side by side: static ones of 256 dimensions by model2vec, tokenlearn and "
        "`isotrope compress`, and two of its layers by sentence-transformers' MSE distillation and by the recipe of "
        "isotrope/small. All saw the same texts; a number behind a name is the learning rate.": measured.students,
        "How their learning rates were chosen: short runs, and what they reach on 1,000 held-out texts.":
            measured.rates,
        "Queries only: documents keep the teacher's vectors. Trained on the collection's documents; nDCG@10.":
            measured.query_side,
        "A student of three layers, trained on SciFact's abstracts only.": measured.domain_student,
    }),
    "few-labels": ("Verdicts by few labels", "python -m benchmarks.search.few_labels", {
        "The share of *better* or *worse* between two models that do not differ, at most 5 % if all is well. *Rule* is "
        "the t test of which at least six queries must have changed, which isotrope uses from ten queries on.":
            partial(measured.few_labels, "queries"),
        "The same by graded pairs, which isotrope tests from fifty on. Grades of yes or no have heavy-tailed cosines "
        "here, and a fifth are yes: there the bootstrap is wrong in up to 7 %.":
            partial(measured.few_labels, "pairs"),
    }),
    "whiten": ("Whitening", "python -m benchmarks.search.whiten and .shrink", {
        "Each exponent, by labels and by tasks from the text. An arrow is a significant change.": measured.whitening,
        "nDCG@10 by labels when it is fitted on few texts, with the plain and with the shrunk covariance.":
            measured.shrink,
    }),
    "post": ("Steps after a model", "python -m benchmarks.search.post", {
        "Fitted on 1,500 documents; the tasks are made from 500 others. An arrow is a significant change.":
            measured.post_steps,
        "What one would get with the step that the tasks score highest.": measured.post_choices,
    }),
    "first-step": ("The first step of WhitenedCSE", "python -m benchmarks.papers.first_step wiki_train_00.txt.xz", {
        "64 sentences, before any training.": measured.first_step,
    }),
    "baselines": (
        "Whitening and flow on a raw model",
        "python -m benchmarks.papers.baselines sts --data DATA --corpus FILE",
        {
        "Spearman × 100; the change is a paired bootstrap against the same model without a step.": measured.baselines,
    }),
    "ranking": ("Ranking tasks", "python -m benchmarks.papers.baselines ranking --data DATA", {
        "KCC and NDCG × 100; the number of lists is beside the name of each set.": measured.ranking,
    }),
    "tsdae": ("TSDAE beside sentence-transformers'", "python -m benchmarks.papers.tsdae RUNS --data DATA --seeds 1", {
        "The same steps on CACM's documents.": measured.tsdae,
    }),
    "quickstart": ("The quickstart, and two single runs", "isotrope quickstart", {
        "`make quickstart`": measured.quickstart,
        "SimCSE on 20,000 sentences from all-MiniLM-L6-v2, with [CLS] and with its own mean pooling; one seed each. "
        "The commands are in the [log](../../log.md).": measured.runs,
    }),
    "performance": ("Speed and memory", "the scripts of benchmarks/speed", {
        "A training step of SimCSE; (a), (b) and (c) are times divided by ours.": speed.step,
        "Encoding, in sentences a second.": speed.encode,
        "Encoding beside others on a processor with bf16 instructions, in one run.": partial(speed.bits, "bf16"),
        "The same processor, whose bf16 instructions are hidden.": partial(speed.bits, "VNNI"),
        "A processor with AVX2 alone.": partial(speed.bits, "AVX2"),
        "Encoding beside others on a processor that has instructions for bf16 but is slower with them, so that "
        "`--dtype auto` stays with float32: how many times as fast as sentence-transformers in float32.":
            speed.dtypes,
        "What 16 bits change: points of Spearman (STS-B) and of nDCG@10 (CACM).": speed.dtype_quality,
        "A training step of each paper's method. WhitenedCSE's preset had one pass then; with today's three, a step "
        "takes 1.57 times as long as SimCSE's.": speed.methods,
        "A training step of the other methods.": speed.step_costs,
        "Memory for a corpus, in bytes a line.": speed.corpus,
        "Memory of a step, with and without gradient caching.": speed.memory,
        "Threads on two shared cores.": speed.threads,
        "Where a training step of SimCSE spends its time, by torch's profiler.": speed.step_profile,
        "Training on a GPU: a BERT of random weights in bf16, not compiled.": speed.gpu,
    }),
    "guide": ("What each choice changes", "isotrope study first, first-minilm and few", {
        "Points of Spearman × 100, with 95 % intervals over three to five seeds.": compared.guide,
        "With less text.": compared.few,
    }),
    "studies": ("The committed studies", "isotrope study NAME --data DATA --output STUDY", {
        "What was run.": compared.ran,
        "The highest row of each study that whitens rows. Texts, presets and collections of search differ between "
        "studies, and the highest of many rows may be chance: for tests, see each study.": compared.highest,
        "What the papers and we claim: differences in points, with 95 % intervals over seeds.": compared.claims,
        "The study \"fair\" so far: eight settings for each method, drawn by one seed, on isotrope/tiny. The columns "
        "are points of STS-B dev: of the best trial, of the median one, and of the one that tasks made from 1,000 "
        "Wikipedia articles choose. tools/trials.py draws all of them.": compared.tuned,
    }),
    "zoo": ("Untuned methods beside SimCSE", "isotrope study zoo --data DATA --output STUDY", {
        "Points, with 95 % intervals over three seeds. Search is the mean nDCG@10 of SciFact and CACM. \\* is "
        "significant after Holm's correction over all differences of this table; any other difference is open.":
            partial(compared.against_simcse, "zoo"),
    }),
}  # fmt: skip


def fill(text: str, name: str, content: str) -> str:
    """Replace what is between the markers of a block."""
    begin, end = f"<!-- {name}: made by tools/tables.py -->", f"<!-- /{name} -->"
    head, _, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not closed:
        raise SystemExit(f"the markers of {name} are missing")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def texts() -> Iterator[tuple[Path, str]]:
    """Every generated file as it has to be."""
    from isotrope.study.document import study_pages

    for page, blocks in PAGES.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, block in blocks.items():
            text = fill(text, name, block())
        yield ROOT / page, text
    for folder, (title, command, tables) in TABLES.items():
        parts = [f"**{said}**\n\n{block()}" for said, block in tables.items()]
        head = f"# {title}\n\nMade by `tools/tables.py` from the result files; `{command}` measures them."
        yield RESULTS / folder / "table.md", "\n\n".join([head, *parts, ""])
    yield RESULTS / "fidelity" / "table.md", papers.page()
    for theme in picture.THEMES:
        svg = picture.before_after(read("quickstart/quickstart"), theme)
        yield RESULTS / "quickstart" / f"before-after-{theme}.svg", svg
    for name, record in compared.records().items():
        yield RESULTS / "studies" / name / "table.md", study_pages(record)["table.md"]


def main(check: bool) -> None:
    """Rewrite the documents, or check them."""
    for page, text in texts():
        if not check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{page.relative_to(ROOT)} is stale: run python tools/tables.py")


if __name__ == "__main__":
    main("--check" in sys.argv)
