"""Cells: what is shared, what decides a key, which settings go where."""

import shutil
from pathlib import Path

import pytest

from conftest import sentences
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.preset.tables import shipped_names
from isotrope.study import study
from isotrope.study.plan import Place, StudyPlan, corpus_files, has_component
from isotrope.study.spec import read_study
from studies import planned, spec_of


def test_common_settings_add_no_component_and_the_row_wins(corpus_file: Path, tmp_path: Path) -> None:
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
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path, forced=["train.batch_size=32"])
    simcse, whitened = (made.cells[made.rows[label][0]].settings for label in ("SimCSE", "Whitened"))
    assert "sgw" not in simcse["views"]
    assert whitened["views"]["sgw"]["groups"] == 64
    assert (simcse["train"]["epochs"], whitened["train"]["epochs"]) == (3, 2)
    assert simcse["train"]["learning_rate"] == 5e-4
    assert simcse["train"]["batch_size"] == whitened["train"]["batch_size"] == 32


def test_a_common_setting_may_be_for_a_row_that_is_left_out(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nset = ["views.sgw.groups=64"]\n[rows.A]\n[rows.B]\npreset = "whitenedcse"'
    assert list(planned(spec_of(tmp_path, corpus_file, rows), tmp_path, only=["A"]).rows) == ["A"]


def test_teachers_are_shared_and_equal_rows_are_one(corpus_file: Path, tmp_path: Path) -> None:
    rows = """
    [run]
    seeds = 2
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
    backbone = "isotrope/minilm"
    """
    spec = spec_of(tmp_path, corpus_file, rows)
    made = planned(spec.model_copy(update={"run": spec.run.model_copy(update={"backbone": "isotrope/tiny"})}), tmp_path)
    assert len(made.cells) == 2 + 3 * 2, "two teachers, three different rows of two seeds"
    assert made.rows["again"] == made.rows["B"]
    keys = list(made.cells)
    for cell in made.cells.values():
        assert all(keys.index(needed) < keys.index(cell.key) for needed in cell.needs)
    base, large = (made.cells[made.models[f"simcse-bert-{size}"]] for size in ("base", "large"))
    assert (base.backbone, large.backbone) == ("isotrope/tiny", "isotrope/minilm")
    assert base.keep_model
    row = made.cells[made.rows["large"][0]]
    assert row.backbone == str(large.model.resolve()), "DCLR's large models start from SimCSE"
    assert made.cells[made.rows["A"][1]].teachers == {"rank": (str(base.model.resolve()), str(large.model.resolve()))}


@pytest.mark.parametrize("name", shipped_names("study"))
def test_the_studies_that_come_with_isotrope_can_be_planned(name: str, corpus_file: Path, tmp_path: Path) -> None:
    changes = {"corpus": [str(corpus_file)], "dev": ["none"], "test": "none", "suites": [], "sentences": 1_000_000}
    spec = read_study(name, changes)
    made = planned(spec, tmp_path)
    assert spec.title
    assert len(made.cells) >= max(len(made.rows), 2), "one model says nothing of chance"
    assert all(claim.text and claim.source for claim in spec.claims.values())
    if name != "first":
        assert all(row.source or not row.published for row in spec.rows.values())


def test_a_model_with_other_weights_is_another_cell(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "model")
    rows = f"[run]\nbackbone = {str(model)!r}\n[rows.A]\n"

    def keys() -> set[str]:
        return set(planned(spec_of(tmp_path, corpus_file, rows), tmp_path).cells)

    first = keys()
    assert keys() == first
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(bytes(weights))
    assert not keys() & first


def test_other_pairs_under_the_same_name_make_another_cell(
    corpus_file: Path, pairs_file: Path, tmp_path: Path, data: Path
) -> None:
    """Pairs that select or judge, and the suites' data, count by what they hold, not by what they are called."""
    own, folder = tmp_path / "own.tsv", tmp_path / "data"
    shutil.copyfile(pairs_file, own)
    sts = Path("senteval") / "downstream" / "STS"
    for task in ("STSBenchmark", *(f"STS{year}-en-test" for year in range(12, 17))):
        shutil.copytree(data / sts / task, folder / sts / task)
    shutil.copytree(data / sts.with_name("SICK"), folder / sts.with_name("SICK"))
    rows = "[rows.Trained]\n[rows.Raw]\ntrain = false\n"
    (tmp_path / "spec.toml").write_text(f'title = "t"\n[run]\nbackbone = "isotrope/tiny"\n{rows}')
    run = {"corpus": [str(corpus_file)], "test": "stsb", "dev": [str(own)], "sentences": 500, "seeds": 1}

    def keys(*suites: str) -> tuple[str, str]:
        spec = read_study(tmp_path / "spec.toml", run | {"suites": suites})
        made = StudyPlan(spec, Place(tmp_path / "out", str(folder)))
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
    assert not set(keys("geometry")) & set(measured_by), "but geometry, which reads the whole folder"
    (folder / sts / "STSBenchmark" / "sts-test.csv").write_text("")
    with pytest.raises(UserError, match=r"sts-test\.csv"):
        keys()


def test_what_changes_a_result_makes_other_cells(corpus_file: Path, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, corpus_file, "[rows.A]\n[rows.raw]\ntrain = false\n")
    made = {}
    for key, value in (("seeds", 5), ("split", "sentences"), ("keep_duplicates", True), ("threads", 2)):
        run = spec.run.model_copy(update={key: value})
        made[key] = planned(spec.model_copy(update={"run": run}), tmp_path)
    for label, different in {"A": 4, "raw": 2}.items():  # without training, no text is read
        assert len({plan.rows[label][0] for plan in made.values()}) == different
    corpora = {key: plan.cells[plan.rows["A"][0]].corpus for key, plan in made.items()}
    assert corpora["split"].split == "sentences"
    assert corpora["keep_duplicates"].keep_duplicates
    assert {cell.run.threads for cell in made["threads"].cells.values()} == {2}


def test_a_corpus_may_have_the_signs_of_a_pattern_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a[1].txt", "a1.txt", "b1.txt"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    assert corpus_files(["a[1].txt"], None) == ("a[1].txt",)
    assert corpus_files(["?1.txt"], None) == ("a1.txt", "b1.txt")
    with pytest.raises(UserError, match=r"c\[1\]\.txt does not exist"):
        corpus_files(["c[1].txt"], str(tmp_path))


def test_a_study_does_not_write_into_its_corpus(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("\n".join(sentences(100)))
    (tmp_path / "spec.toml").write_text('title = "t"\n[run]\ntest = "none"\ndev = "none"\n[rows.A]\n')
    with pytest.raises(UserError, match=r"out lies in .*text, which is read: choose an --output elsewhere"):
        study(tmp_path / "spec.toml", output=tmp_path / "text" / "out", documents=[str(tmp_path / "text")])
    assert [path.name for path in (tmp_path / "text").iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("key", "of_simcse", "of_loss"),
    [
        ("train.epochs", True, True),
        ("views.passes", True, False),
        ("terms.infonce.temperature", True, False),
        ("loss_options.scale", False, True),
        ("loss_options.margin", False, False),
        ("pairs.rounds", False, False),
    ],
)
def test_a_common_setting_reaches_the_rows_that_have_its_component(key: str, of_simcse: bool, of_loss: bool) -> None:
    bare = ["views=false", "scores=false", "terms=false", "loss=a:B", "loss_options.scale=10"]
    assert has_component(key, read_preset("simcse")) == of_simcse
    assert has_component(key, read_preset("simcse", bare)) == of_loss
    assert has_component("pairs.rounds", read_preset("crops"))
