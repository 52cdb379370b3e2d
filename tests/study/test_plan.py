"""A study's file, its rows and sweeps, the options over it, and its cells: what is shared, and what
decides a key.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from helpers.commands import in_process
from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.studies import planned
from helpers.words import sentences
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.preset.tables import read_toml, shipped_names
from isotrope.study import study
from isotrope.study.cost import GPUS, Estimate, study_cost, total
from isotrope.study.plan import StudyPaths, StudyPlan, corpus_files, has_component
from isotrope.study.rows import expand_rows
from isotrope.study.spec import Spec, read_study
from isotrope.study.study import paths_of, spec_with
from isotrope.study.tuned import with_tuned

Sketch = Callable[..., StudyPlan]


def test_common_settings_add_no_component_and_the_row_wins(sketch: Sketch) -> None:
    rows = """
    [run]
    backbone = "isotrope/tiny"
    set = ["views.sgw.groups=64", "train.epochs=2", "train.learning_rate=1e-4"]
    [backbones."isotrope/tiny"]
    set = ["train.learning_rate=5e-4"]
    [rows.SimCSE]
    set = ["train.epochs=3"]
    [rows.Whitened]
    preset = "whitenedcse"
    """
    made = sketch(rows, forced=("train.batch_size=32",))
    simcse, whitened = (
        made.cells[made.rows[label][0]].settings for label in ("SimCSE", "Whitened")
    )
    assert "sgw" not in simcse["views"]
    assert whitened["views"]["sgw"]["groups"] == 64
    assert (simcse["train"]["epochs"], whitened["train"]["epochs"]) == (3, 2)
    assert simcse["train"]["learning_rate"] == 5e-4
    assert simcse["train"]["batch_size"] == whitened["train"]["batch_size"] == 32
    assert list(sketch(rows, only=["SimCSE"]).rows) == ["SimCSE"], (
        "a setting may be for a row that is left out"
    )


def test_teachers_are_shared_and_equal_rows_are_one(sketch: Sketch) -> None:
    rows = """
    [run]
    seeds = 2
    backbone = "isotrope/tiny"
    [rows.A]
    preset = "rankcse-listnet-bert-base"
    [rows.B]
    preset = "rankcse-listmle-bert-base"
    [rows.again]
    preset = "rankcse-listmle-bert-base"
    [rows.large]
    preset = "dclr-bert-large"
    [teachers.simcse-bert-large]
    preset = "simcse-bert-large"
    seed = 1
    """
    made = sketch(rows)
    assert len(made.cells) == 2 + 3 * 2, "two teachers, three different rows of two seeds"
    assert made.rows["again"] == made.rows["B"]
    keys = list(made.cells)
    for cell in made.cells.values():
        assert all(keys.index(needed) < keys.index(cell.key) for needed in cell.needs)
    base, large = (made.cells[made.models[f"simcse-bert-{size}"]] for size in ("base", "large"))
    assert (base.seed, large.seed) == (0, 1)
    assert base.keep_model
    row = made.cells[made.rows["large"][0]]
    assert row.backbone == str(large.model.resolve()), "DCLR's large models start from SimCSE"
    assert made.cells[made.rows["A"][1]].teachers == {
        "rank": (str(base.model.resolve()), str(large.model.resolve()))
    }


@pytest.fixture(scope="session")
def large_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 different lines: 0.3 % of them fill two batches."""
    path = tmp_path_factory.mktemp("large") / "large.txt"
    path.write_text("".join(f"the number of this line is {n}\n" for n in range(100_000)))
    return path


# name -> width, heads: one layer of the hub's models, which a plan reads and never loads
STAND_INS = {
    "bert-base-uncased": (768, 12),
    "bert-large-uncased": (1024, 16),
    "roberta-base": (768, 12),
    "roberta-large": (1024, 16),
}


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the names of the hub's models are models with their true widths."""
    folder = tmp_path_factory.mktemp("hub")
    for name, (width, heads) in STAND_INS.items():
        build_bert(folder / name, hidden=width, layers=1, heads=heads)
    return folder


def _spec(name: str, corpus: Path, tmp_path: Path) -> Spec:
    """A shipped study on this text, which no pairs judge."""
    nothing = {"dev": ["none"], "test": "none", "suites": {}, "documents": []}
    spec = read_study(name, {"corpus": [str(corpus)], "sentences": 100_000, "seeds": 2, **nothing})
    if any(teacher.tuned for teacher in spec.teachers.values()):
        (settings := tmp_path / "search.toml").write_text(
            tomli_w.dumps({"rows": {label: {"set": []} for label in spec.rows}})
        )
        return with_tuned(spec, settings)
    return spec


@pytest.mark.parametrize("name", shipped_names("study"))
def test_the_studies_that_come_with_isotrope_can_be_planned(
    name: str, large_corpus: Path, tmp_path: Path
) -> None:
    spec = _spec(name, large_corpus, tmp_path)
    made = planned(spec, tmp_path)
    assert len(made.cells) >= max(len(made.rows), 2), "one model says nothing of chance"
    assert all(claim.text and claim.source for claim in spec.claims.values())
    if name != "first":
        assert all(row.source or not row.published for row in spec.rows.values())


def test_a_teacher_with_tuned_settings_needs_them(corpus_file: Path, tmp_path: Path) -> None:
    given = {"corpus": [str(corpus_file)], "dev": ["none"], "test": "none"}
    nothing: dict[str, Any] = {"suites": {}, "documents": [], "sentences": 500}
    with refused("no-settings", "SimCSE") as caught:
        planned(read_study("fair", given | nothing), tmp_path)
    assert caught.value.code == "no-settings"


PAPERS = [
    name
    for name in shipped_names("study")
    if name.startswith(("dclr-", "rankcse-", "whitenedcse-"))
]


def test_the_papers_have_28_studies_which_keep_duplicates() -> None:
    assert len(PAPERS) == 28
    assert all(read_study(name).run.keep_duplicates for name in PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_plan_tells_what_a_study_of_the_papers_needs_on_the_hubs_models(
    name: str,
    large_corpus: Path,
    stand_ins: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(stand_ins)
    _, tables = read_toml("study", name)
    for key in ("suites", "documents"):  # they need the data of the evaluation
        tables["run"].pop(key, None)
    file = tmp_path / f"{name}.toml"
    file.write_text(tomli_w.dumps(tables))
    command = (
        f"study {file} --plan --gpu h200 --output {tmp_path / 'out'} --documents {large_corpus} "
    )
    command += "--sentences 100000 --seeds 2 --dev none --labels none"
    assert in_process(command.split(), monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "NVIDIA H200" in shown
    assert re.search(r"All: about .* with one worker", shown)
    assert not (tmp_path / "out").exists(), "nothing is run"


@pytest.mark.parametrize("name", ["rankcse-table2", "dclr-table1", "whitenedcse-table1"])
def test_an_estimate_has_all_cells_of_a_plan(
    name: str, large_corpus: Path, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stand_ins)
    plan = planned(_spec(name, large_corpus, tmp_path), tmp_path)
    table = study_cost(plan, "h200")
    assert len(table.rows) == len(plan.rows) + len(plan.models)
    assert sum(int(cells) for _, cells, *_ in table.rows) >= len(plan.cells)
    assert all(unfinished == cells for _, cells, unfinished, *_ in table.rows)
    estimate = Estimate(plan, GPUS["h200"])
    cost = total([estimate.cell(cell) for cell in plan.cells.values()])
    assert cost.seconds > 0
    assert cost.memory > 1e6
    assert cost.disk > 1e6


def test_documents_that_allow_no_task_are_refused(
    plan: Callable[..., StudyPlan], tmp_path: Path
) -> None:
    """Else a search would call the first trial the best."""
    (few := tmp_path / "few.txt").write_text("One short text.\nAnother one.\n")
    with refused("too-few-documents"):
        plan("[rows.a]\n", documents=[str(few)])


def test_a_model_with_other_weights_is_another_cell(
    tiny_model: Path, sketch: Sketch, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "model")
    rows = f"[run]\nbackbone = {str(model)!r}\n[rows.A]\n"

    def keys() -> set[str]:
        return set(sketch(rows).cells)

    first = keys()
    assert keys() == first
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(bytes(weights))
    assert not keys() & first


def test_other_pairs_under_the_same_name_make_another_cell(
    corpus_file: Path, pairs_file: Path, tmp_path: Path, data: Path
) -> None:
    """Pairs that select or judge, and the suites' data, count by what they hold, not by what they
    are called.
    """
    own, folder = tmp_path / "own.tsv", tmp_path / "data"
    shutil.copyfile(pairs_file, own)
    sts = Path("senteval") / "downstream" / "STS"
    shutil.copytree(data / sts / "STSBenchmark", folder / sts / "STSBenchmark")
    rows = "[rows.Trained]\n[rows.Raw]\ntrain = false\n"
    (tmp_path / "spec.toml").write_text(f'title = "t"\n[run]\nbackbone = "isotrope/tiny"\n{rows}')
    run = {
        "corpus": [str(corpus_file)],
        "test": "stsb",
        "dev": [str(own)],
        "sentences": 500,
        "seeds": 1,
    }

    def keys(*suites: str) -> tuple[str, str]:
        spec = read_study(tmp_path / "spec.toml", run | {"suites": {suite: {} for suite in suites}})
        made = StudyPlan(spec, StudyPaths(tmp_path / "out", str(folder)))
        return made.rows["Trained"][0], made.rows["Raw"][0]

    def swap(path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    first = keys()
    assert keys() == first
    swap(own, own.read_text().split("\t")[0], "other words")
    selected = keys()
    assert selected[0] != first[0]
    assert selected[1] == first[1], "nothing selects a model that is not trained"
    swap(folder / sts / "STSBenchmark" / "sts-test.csv", "\t2.500\t", "\t2.400\t")
    judged_by, measured_by = keys(), keys("geometry")
    assert not set(judged_by) & set(selected)
    swap(folder / sts / "STSBenchmark" / "sts-train.csv", "a plane", "a train")
    assert keys() == judged_by, "nothing reads the training pairs"
    assert not set(keys("geometry")) & set(measured_by), (
        "but geometry, which reads the whole folder"
    )
    (folder / sts / "STSBenchmark" / "sts-test.csv").write_text("")
    with pytest.raises(UserError, match=r"sts-test\.csv"):
        keys()


def test_what_changes_a_result_makes_other_cells(sketch: Sketch) -> None:
    changes: dict[str, Any] = {
        "seeds": 5,
        "keep_duplicates": True,
    }
    made = {
        key: sketch("[rows.A]\n[rows.raw]\ntrain = false\n", **{key: value})
        for key, value in changes.items()
    }
    for label, different in {"A": 2, "raw": 1}.items():  # without training, no text is read
        assert len({plan.rows[label][0] for plan in made.values()}) == different
    corpora = {key: plan.cells[plan.rows["A"][0]].corpus for key, plan in made.items()}
    assert corpora["keep_duplicates"].keep_duplicates


def test_a_corpus_is_looked_for_here_and_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a[1].txt").write_text("a")
    assert corpus_files(["a[1].txt"], str(tmp_path)) == (str(tmp_path / "a[1].txt"),)
    monkeypatch.chdir(tmp_path)
    assert corpus_files(["a[1].txt"], None) == ("a[1].txt",)
    with refused("missing-path", "c[1].txt"):
        corpus_files(["c[1].txt"], str(tmp_path))


def test_a_study_does_not_write_into_its_corpus(
    write: Callable[[str], Path], tmp_path: Path
) -> None:
    (folder := tmp_path / "text").mkdir()
    (folder / "a.txt").write_text("\n".join(sentences(100)))
    with refused("output-in-input"):
        study(write("[rows.A]\n"), output=folder / "out", documents=[str(folder)])
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_a_common_setting_reaches_the_rows_that_have_its_component() -> None:
    for key, expected in (
        ("train.epochs", True),
        ("views.passes", True),
        ("terms.infonce.temperature", True),
        ("terms.listnet.temperature", False),
        ("pairs.rounds", False),
    ):
        assert has_component(key, read_preset("simcse")) is expected, key
    assert has_component("pairs.rounds", read_preset("crops"))


BAD = {
    'title = "t"\n[rows.a]\npresett = "simcse"': "rows.a.presett is an unknown key",
    'title = "t"\n[rows.a]\npreset = "simcze"': "row 'a': preset 'simcze' is unknown",
    'title = "t"\n[rows.a]\npublished = {"STS-12" = 3}': "'STS-12' is not possible",
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "b"\nthan = "a"\ntext = ""': "claims.c: 'b' is unknown",
    'title = "t"\n[rows.a]\n[run]\nbaseline = "b"': "run.baseline = 'b' is unknown",
    'title = "t"\n[rows.a]\n[run]\nset = ["terms.listnett.temperature=1"]': "no row has such a component",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.001]}\n[run]\nsentences = 100': "do not fill a batch",
    'title = "t"\n[rows.a]\nsweep = {sentences = [-0.5]}': "sentences = -0.5 is not possible",
    'title = "t"\n[rows.a]\nsweep = {sentences = [601]}': "601 sentences of a text that has ",
    'title = "t"\n[rows.a]\n[run.suites]\ntransfer = {setting = "quick"}': "suite transfer: the setting 'quick' is",
    'title = "t"\n[rows.a]\npreset = "rankcse-listnet"\n[teachers.simcse]\npreset = "rankcse-listnet"': "needs itself",
    'title = "t"\n[rows.a]\nthen = "flux"': "then = 'flux': there is no step 'flux'",
    'title = "t"\n[rows.a]\nthen = "whitening:fit=text.txt"': "then = 'whitening:fit=text.txt' is not possible",
    'title = "t"\n[rows.a]\nthen = "flow:sentences=5"': "then = 'flow:sentences=5' is not possible",
    'title = "t"\n[rows.a]\ntrain = false\nsweep = {"train.epochs" = [1]}': "rows.a.sweep has no effect",
    'title = "t"\n[rows.a]\nvectors = true\npreset = "dclr"\n': "rows.a.preset has no effect",
    'title = "t"\n[rows.a]\n[run]\nvectors = "glove.txt"': "run.vectors has no effect",
    'title = "t"\n[rows.a]\nsweep = {seed = [1]}\npublished = {STS12 = 1}': "rows.a.published has no effect",
    'title = "t"\n[rows.a]\n[rows.b]\nvectors = true': "rows.b has word vectors, and no file is named",
    'title = "t"\n[rows.b]\nvectors = true\n[run]\nvectors = "missing.tsv"': "missing.tsv",
    'title = "t"\n[rows.a]\n[rows.b]\ndocuments = "nli"': "rows.b has documents 'nli', and no file is named",
    'title = "t"\n[rows.a]\npositive = "x"': "rows.a.positive has no effect",
    'title = "t"\n[rows.a]\ntrain = false\ndocuments = "nli"': "rows.a.documents has no effect",
    'title = "t"\n[rows.a]\ntrain = false\nthen = "flow:fit=target"\ndocuments = "nli"': "rows.a.documents has no",
    'title = "t"\n[rows.a]\ndocuments = "nli"\nsweep = {sentences = [9]}': "rows.a.sweep.sentences has no effect",
    'title = "t"\n[rows.a]\n[rows.b]\ndocuments = "nli"\npublished = {"Avg." = 1}\n[teachers.c]\npreset = "simcse"\n'
    'tuned = "b"': "the trained row teachers.c.tuned = 'b' is unknown",
    'title = "t"\n[rows.a]\n[rows.b]\ndocuments = "nli"\npublished = {"Avg." = 1}\n[run]\nbaseline = "b"': (
        "run.baseline = 'b' has printed numbers alone: name its documents 'nli' with --row-documents nli=FILE"
    ),
    'title = "t"\n[rows.a]\nsweep = {"encoder.pooling" = ["cls"]}\n[figures.f]\nkind = "sweep"\ntitle = ""\n'
    'x = "encoder.pooling"': "figures.f.x = 'encoder.pooling' is unknown",
    'title = "t"\n[rows.a]\n[figures."../f"]\nkind = "bars"\ntitle = ""': "../f",
    'title = "t"\n[rows.a]\n[run]\ndev = ["missing.tsv"]': "missing.tsv does not exist",
    'title = "t"\n[rows.a]\n[search.keys]\n"train.warmup" = {low = 0, high = 1, log = true}': (
        "search.keys.train.warmup = {'low': 0, 'high': 1, 'log': True} is not possible: it should have a high"
    ),
    'title = "t"\n[rows.a]\nsearch = {"train.warmup" = [1979-05-27]}\n[search.keys]\n"train.warmup" = [0.1]': (
        "rows.a.search.train.warmup = [datetime.date(1979, 5, 27)] is not possible"
    ),
    'title = "t"\n[rows.a]\nsearch = {"train.warmup" = [0.1]}': "rows.a.search has no effect",
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "a"\nthan = "a"\ntext = "t"\nspread = true\nshare = 0.9': (
        "is not possible: it should have share only without spread"
    ),
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "a"\nthan = "a"\ntext = "t"\ncolumn = "alignment"\nshare = 0.9': (
        "share only without spread, where higher is better"
    ),
    'title = "t"\n[rows.a]\n[run]\ndocuments = ["none.jsonl"]': "none.jsonl does not exist: check the path",
}


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_is_one_line_that_names_file_and_remedy(
    text: str, corpus_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        planned(read_study(file, {"corpus": [str(corpus_file)], "test": "none"}), tmp_path)
    line = str(caught.value)
    assert BAD[text] in line
    assert any(
        name in line
        for name in ("wrong", "terms.listnett", "run.suites", "suite ", "missing.tsv", "none.jsonl")
    )
    assert "\n" not in line
    assert caught.value.remedy


def test_sweeps_make_rows(sketch: Sketch) -> None:
    rows = '[rows.D]\npreset = "dclr"\nsweep = {"scores.noise.ratio" = [0.5, 1.0], sentences = [0.5, 1, 300]}\n'
    rows += '[rows.E]\ntrain = false\n[rows.white]\ntrain = false\nthen = "whitening"\nsweep = {sentences = [1, 0.5]}'
    made = sketch(rows)
    assert list(made.rows)[:2] == [
        "D, ratio = 0.5, sentences = 0.5",
        "D, ratio = 0.5, sentences = 1",
    ]
    assert list(made.rows)[-2:] == ["white, sentences = 1", "white, sentences = 0.5"], (
        "fits its step on them"
    )
    assert [made.cells[keys[0]].row.sentences for keys in made.rows.values()] == [
        250,
        500,
        300,
    ] * 2 + [
        500,
        500,
        250,
    ]
    assert (
        made.cells[made.rows["D, ratio = 0.5, sentences = 1"][0]].settings["scores"]["noise"][
            "ratio"
        ]
        == 0.5
    )
    assert len(expand_rows(made.spec, ["D"])) == 6
    with refused("same-name", "D, epochs = 1"):
        sketch('[rows.D]\nsweep = {"train.epochs" = [1, 1.0000001]}\n')


def test_evaluations_shrink_with_the_sentences(sketch: Sketch) -> None:
    """The value of the preset, or of an override, times the share; 1 at least. The whole run is the
    same cell.
    """
    sweep = "sweep = {sentences = [1, 0.5, 0.33, 80]}"
    rows = f"""
[rows.D]
{sweep}
scale = "train.eval_steps"
[rows.again]
{sweep}
set = ["train.eval_steps=5"]
scale = ["train.eval_steps", "train.save_steps"]
[rows.plain]
"""
    made = sketch(rows)
    train = {label: made.cells[keys[0]].settings["train"] for label, keys in made.rows.items()}
    assert [t["eval_steps"] for t in train.values()] == [250, 125, 82, 40, 5, 2, 2, 1, 250]
    assert [t["save_steps"] for t in train.values()] == [500] * 4 + [500, 250, 165, 80, 500]
    assert made.rows["D, sentences = 1"] == made.rows["plain"]


SHARES = """
[rows.D]
sweep = {sentences = [1, 0.5]}
scale = "train.eval_steps"
"""


def test_shares_without_a_number_are_of_the_rows_that_are_left(
    sketch: Sketch, tmp_path: Path
) -> None:
    """Duplicates are left out before shares are taken; the whole text is a run without a number."""
    lines = sentences(300)
    (tmp_path / "twice.txt").write_text("\n".join(lines * 2) + "\n")
    given = {"corpus": [str(tmp_path / "twice.txt")], "sentences": None}
    left_out = sketch(SHARES, **given)
    cells = [left_out.cells[keys[0]] for keys in left_out.rows.values()]
    assert [cell.row.sentences for cell in cells] == [None, len(set(lines)) // 2]
    assert [cell.settings["train"]["eval_steps"] for cell in cells] == [250, 125]
    kept = sketch(SHARES, **given, keep_duplicates=True)
    assert kept.cells[kept.rows["D, sentences = 0.5"][0]].row.sentences == len(lines)


def test_a_sample_larger_than_the_rows_that_are_left_is_refused_before_any_cell_runs(
    sketch: Sketch, tmp_path: Path
) -> None:
    lines = sentences(300)
    (tmp_path / "twice.txt").write_text("\n".join(lines * 2) + "\n")
    given = {"corpus": [str(tmp_path / "twice.txt")], "sentences": 600}
    with refused("sample-larger-than-text", "600") as caught:
        sketch("[rows.A]", **given)
    assert caught.value.code == "sample-larger-than-text"
    assert "--keep-duplicates" in caught.value.remedy
    assert sketch("[rows.A]", **given, keep_duplicates=True).cells


def test_a_preset_that_draws_pairs_reads_documents_beside_rows_that_keep_duplicates(
    sketch: Sketch, tmp_path: Path
) -> None:
    pages = [" ".join(sentences(12, seed)) for seed in range(100)]
    (tmp_path / "pages.txt").write_text("\n".join(pages) + "\n")
    rows = '[rows.A]\n[rows.B]\npreset = "crops"\n'
    plan = sketch(rows, corpus=[str(tmp_path / "pages.txt")], sentences=None, keep_duplicates=True)
    kept = {label: plan.cells[keys[0]].corpus.keep_duplicates for label, keys in plan.rows.items()}
    assert kept == {"A": True, "B": False}


def test_a_row_with_text_of_its_own_says_what_differs_until_the_file_is_named(
    sketch: Sketch, corpus_file: Path
) -> None:
    rows = """
    [rows.IS]
    documents = "nli"
    differs = "trained on NLI text"
    published = {"Avg." = 66.58}
    """
    without, named = sketch(rows), sketch(rows, row_documents={"nli": str(corpus_file)})
    assert (without.spec.rows["IS"].documents, named.spec.rows["IS"].documents) == ("", "nli")
    assert (without.spec.rows["IS"].differs, named.spec.rows["IS"].differs) == (
        "trained on NLI text",
        "",
    )


def test_options_replace_their_settings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "study.toml"
    run = (
        'corpus = "a.txt"\nbackbone = "isotrope/tiny"\nsentences = 500\ndev = ["none"]\nseeds = 4\n'
    )
    file.write_text(f'title = "t"\n[run]\n{run}[rows.SimCSE]\n')
    monkeypatch.setenv("ISOTROPE_DATA", "theirs")
    nothing: Any = {"output": tmp_path, "documents": [], "model": None, "dev": ()}
    plain = spec_with(file, nothing)
    assert plain == read_study(file), "what is left out is as the file says"
    assert paths_of(nothing) == StudyPaths(tmp_path, "theirs")
    given: Any = {
        "documents": ["mine.txt"],
        "model": "m",
        "sentences": 64,
        "dev": ["stsb"],
        "keep_duplicates": True,
    }
    changed = {
        "corpus": ("mine.txt",),
        "backbone": "m",
        "sentences": 64,
        "dev": ("stsb",),
        "keep_duplicates": True,
    }
    spec = spec_with(file, {"output": "out", **given})
    assert spec.run == plain.run.model_copy(update=changed)
    assert paths_of({"output": "out", "data": Path("mine")}) == StudyPaths(Path("out"), "mine")
