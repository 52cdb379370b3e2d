"""Presets: what ships is valid and cited; files, what they extend, overrides; what is wrong is
named.
"""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import isotrope
from helpers.refusals import refused
from isotrope.cli.presets import presets as app
from isotrope.errors import UserError
from isotrope.preset.preset import (
    build_objective,
    check_runnable,
    pair_maker,
    preset_names,
    read_preset,
)
from isotrope.preset.sources import annotated, cited_sources, flat
from isotrope.preset.tables import names_backbone, preset_descriptions, resolved_tables
from isotrope.text.pairs.crops import Crops
from isotrope.text.pairs.passages import Passages
from isotrope.text.pairs.sentences import Neighbours
from isotrope.text.pairs.title_body import TitleBody


def test_every_shipped_preset_is_whole(tmp_path: Path) -> None:
    """It resolves, reads back, says what it is, and cites a source for each of its settings."""
    descriptions = preset_descriptions()  # which reads every preset
    assert list(descriptions) == preset_names()
    for name in preset_names():
        preset = read_preset(name)
        path = tmp_path / f"{name}.toml"
        path.write_text(preset.toml(), encoding="utf-8")
        assert read_preset(str(path)).model_dump(exclude={"name"}) == preset.model_dump(
            exclude={"name"}
        )
        assert preset.description
        assert preset.description == descriptions[name]
        assert ("[pairs]" in preset.toml()) == (preset.pairs is not None)
        for key, value in cited_sources(name).items():
            assert value or key in {"description", "extends", "name"}, (
                f"{name}: {key} has no source"
            )


def test_show_names_the_source_of_every_line() -> None:
    text = annotated("simcse-bert-base", ["train.batch_size=32"])
    assert "batch_size = 32                     # --set" in text
    assert all(
        "#" in line
        for line in text.splitlines()
        if " = " in line and not line.startswith("description")
    )
    assert (
        'order = ["hard_negatives", "noise", "instance_weight"] # DCLR Eq. 6'
        in annotated("all-three").splitlines()
    )


def test_show_names_the_users_own_files(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('extends = "simcse"\n[train]\nwarmup = 0.1\n')
    (tmp_path / "mine.toml").write_text(
        'extends = "base.toml"\ntrain.epochs = 3\n[terms."[y]"]\nkind = "infonce"\n'
    )
    text = annotated(str(tmp_path / "mine.toml"), ["train.batch_size=32"])
    lines = {
        line.partition(" =")[0]: line.partition("# ")[2]
        for line in text.splitlines()
        if " = " in line
    }
    assert (lines["epochs"], lines["warmup"], lines["kind"]) == (
        "mine.toml",
        "base.toml",
        "mine.toml",
    )
    assert (lines["batch_size"], lines["accumulation"]) == ("--set", "default")
    assert lines["temperature"] == cited_sources("simcse")["terms.infonce.temperature"]


SIMCSE = {
    "train.epochs": 1.0, "train.weight_decay": 0.0, "train.warmup": 0.0, "train.schedule": "linear",
    "train.max_grad_norm": 1.0, "train.max_length": 32, "terms.infonce.temperature": 0.05, "encoder.pooling": "cls",
    "views.passes": 2, "views.mlp": {}, "encoder.dropout": 0.1,
}  # fmt: skip
DCLR = {
    "train.eval_steps": 125, "train.select": ["stsb-dev", "sickr-dev"], "encoder.pooling": "cls_head",
    "tokens.no_mask.kind": "released.no_mask", "tokens.no_mask.on": [0, 1], "terms.softmax_bce.temperature": 0.05,
    "scores.instance_weight.kind": "released.zero_logit", "scores.instance_weight.noise": False,
    "scores.noise.kind": "released.against_batch", "terms.softmax_bce.kind": "released.softmax_bce",
}  # fmt: skip
RANKCSE = {
    "terms.consistency.kind": "released.clamped", "train.epochs": 1.0, "train.learning_rate": 3e-5, "train.warmup": 0.0,
    "train.eval_steps": 125, "train.batch_size": 128, "teachers.rank.weights": [0.33, 0.67],
    "teachers.rank.pooling": ["cls", "cls"], "terms.infonce.temperature": 0.05,
}  # fmt: skip


def dclr(
    epochs: float,
    batch: int,
    rate: float,
    ratio: float,
    threshold: float,
    backbone: str,
    guide: str,
) -> dict:
    """A line of run.sh: the last but two are k and φ."""
    return DCLR | {
        "train.epochs": epochs,
        "train.batch_size": batch,
        "train.learning_rate": rate,
        "scores.noise.ratio": ratio,
        "scores.instance_weight.threshold": threshold,
        "encoder.backbone": backbone,
        "teachers.guide.models": [guide],
    }


PUBLISHED: dict[str, dict[str, object]] = {  # for the three papers' own settings, see test_fidelity
    "simcse-bert-base": SIMCSE | {"train.batch_size": 64, "train.learning_rate": 3e-5},
    "simcse-bert-large": SIMCSE | {"train.batch_size": 64, "train.learning_rate": 1e-5},
    "simcse-roberta-base": SIMCSE | {"train.batch_size": 512, "train.learning_rate": 1e-5},
    "simcse-roberta-large": SIMCSE | {"train.batch_size": 512, "train.learning_rate": 3e-5},
    "dclr-bert-base-released": dclr(3.0, 128, 3e-5, 1.0, 0.9, "bert-base-uncased", "simcse-bert-base"),
    "dclr-roberta-base-released": dclr(3.0, 128, 3e-5, 2.5, 0.85, "roberta-base", "simcse-roberta-base") | {
        "encoder.pooling": "new_head",  # the checkpoint has none
    },
    "dclr-bert-large-released": dclr(1.0, 64, 3e-5, 3.0, 0.9, "simcse-bert-large", "simcse-bert-base"),
    "dclr-roberta-large-released": dclr(1.0, 64, 1e-5, 5.0, 0.85, "simcse-roberta-large", "simcse-roberta-base"),
    "rankcse-listnet-bert-base-released": RANKCSE | {
        # τ₂ of its script: half is not used
        "terms.rank.temperature": 0.05, "terms.rank.teacher_temperature": 0.05,
    },
    "rankcse-listmle-bert-base-released": RANKCSE | {
        "terms.listmle.temperature": 0.05, "terms.listmle.kind": "released.floored",
    },
    # facts of other public code: what its script or its library does
    "pcl": {"views.passes": 20, "tokens.delete.exact": True, "tokens.insert.max_length": 32},
    "ct": {"encoder.dropout": 0.0, "terms.ct.negatives": 7, "train.batch_size": 16, "train.max_length": 75},
    "mocose": {"train.eval_steps": 175, "train.weight_decay": 1e-6, "views.branches.dropout": 0.1},
    "mixcse": {"scores.mixed.share": 0.2}, "sg-opt": {"train.weight_decay": 0.01},
    "vascl": {"train.schedule": "constant", "train.max_grad_norm": 1e9}, "esimcse": {"tokens.repeat.most": 9},
    "whitenedcse-bert-base": {"views.sgw.copies": 1},
    "whitenedcse-bert-base-released": {
        "views.sgw.groups": 128, "views.sgw.copies": 1, "views.passes": 3, "views.sgw.kind": "released.detach",
        "train.batch_size": 128, "train.accumulation": 2, "train.learning_rate": 1e-5, "train.eval_steps": 125,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_simcses_settings_and_those_of_released_code(name: str) -> None:
    found = flat(read_preset(name))
    assert {key: found[key] for key in PUBLISHED[name]} == PUBLISHED[name]
    if name.startswith("dclr") and name.endswith("released"):
        assert ("views.mlp" in found) == ("base" in name), "large models have no head but SimCSE's"
        assert "terms.infonce.temperature" not in found


RESOLVED = Path(__file__).with_name("resolved.json")


def test_every_shipped_preset_resolves_to_its_recorded_settings() -> None:
    """The record was made before the sizes of a method moved into its file."""
    recorded = json.loads(RESOLVED.read_text(encoding="utf-8"))
    assert sorted(recorded) == preset_names()
    for name, settings in recorded.items():
        assert flat(read_preset(name)) == settings, name


def test_reading_a_preset_imports_nothing_of_a_third_party(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for ``show`` or ``diff``; and what is not a component is refused when a run starts,
    whatever it is.
    """
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text('extends = "simcse"\n[terms.x]\nkind = "loud:Thing"\n')
    runner = CliRunner()
    for command in (["show", str(path)], ["diff", "simcse", str(path)]):
        done = runner.invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "loud:Thing" in done.output
    with pytest.raises(SystemExit):
        check_runnable(read_preset(path))


def test_a_preset_cannot_run_any_callable(
    tmp_path: Path, corpus_file: Path, tiny_model: Path
) -> None:
    """Before anything is written, a class that is not a component is refused, and not called."""
    touched = tmp_path / "touched"
    path = tmp_path / "mine.toml"
    path.write_text(
        f'extends = "simcse"\n[terms.x]\nkind = "subprocess:Popen"\nargs = ["touch", "{touched}"]\n'
    )
    with refused("wrong-stage", "subprocess:Popen"):
        isotrope.train(
            corpus_file, output=tmp_path / "run", preset=path, model=str(tiny_model), dev="none"
        )
    with refused("wrong-stage"):
        build_objective(read_preset(path), isotrope.load(tiny_model, "mean", device="cpu"))
    assert not touched.exists()


MISTAKES = [  # a preset, an override, and the one line that it gets
    ("simcse", 'views.order=["mlp", "sgw"]', r"views\.order.*'mlp'"),
    ("dclr", "scores.instance_weight.teacher=nobody", r"scores\.instance_weight\.teacher = 'nobody'"),
    ("simcse", "terms.score.kind=infonce", r"terms\.score: the run's log has a field of that name: choose another"),
    ("simcse", "train.batch_size=many", r"train\.batch_size = 'many' is not possible: it should be a valid integer"),
    ("simcse", "train=5", "train = 5 is not possible: it should be"),
    ("rankcse-listnet", "teachers.rank.max_length=trains",
     r"^teachers\.rank\.max_length = 'trains' is not possible: .*integer.* or it should be 'train' or .* tuple$"),
    ("distil", "train.dims=[]", "train.dims"),
    ("crops", "pairs.kind=cuts", "pairs has no kind 'cuts'"),
    ("crops", "pairs.kind=3", r"pairs\.kind = 3 is not possible"),
    ("crops", "pairs.shortest=30", r"pairs\.crops\.longest = 24 is less than shortest = 30"),
    ("crops", "pairs.longer=9", r"pairs\.longer is an unknown key: did you mean 'pairs\.longest'\?"),
]  # fmt: skip


def test_a_mistake_is_named_as_it_stands_in_the_preset() -> None:
    for preset, override, said in MISTAKES:
        with pytest.raises(UserError, match=said):
            read_preset(preset, [override])


def test_a_mistyped_key_gets_the_nearest_one() -> None:
    for typed, meant in (
        ("train.batchsize=32", "train.batch_size"),
        ("batch_size=32", "train.batch_size"),
        ("temperature=0.1", "terms.infonce.temperature"),
        ("term.infonce.temperature=0.1", "terms.infonce.temperature"),
        ("terms.infonc.temperature=0.1", "infonce"),
    ):
        with pytest.raises(UserError, match=f"did you mean '{re.escape(meant)}'"):
            read_preset("simcse", [typed])


def test_peers_are_read_and_leave_no_word_where_there_are_none() -> None:
    """A word would change the keys of runs and studies that know no second encoder."""
    assert "peers" not in read_preset("simcse").toml()
    preset = read_preset(
        "simcse", ["peers.slow.kind=moving_average", "peers.slow.on=[1]", "peers.slow.decay=0.9"]
    )
    assert 'kind = "moving_average"' in preset.toml()
    with refused("impossible-value", "peers.slow.decay"):
        read_preset("simcse", ["peers.slow.kind=moving_average", "peers.slow.decay=1.5"])


def test_a_relative_extends_is_found_from_the_presets_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("mine", "mine/shared", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mine" / "top.toml").write_text('extends = "shared/middle.toml"\n')
    (tmp_path / "mine" / "shared" / "middle.toml").write_text('extends = "base.toml"\n')
    (tmp_path / "mine" / "shared" / "base.toml").write_text(
        'extends = "simcse"\n[train]\nepochs = 7\n'
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "base.toml").write_text('extends = "simcse"\n[train]\nepochs = 9\n')
    for name in (tmp_path / "mine" / "top.toml", "../mine/top.toml"):
        assert read_preset(name).train.epochs == 7
    (tmp_path / "mine" / "shared" / "base.toml").unlink()
    with refused("missing-file", "base.toml", "shared"):
        read_preset("../mine/top.toml")


def test_a_circle_is_named_whatever_the_paths_are_called(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "./two.toml"\n')
    (tmp_path / "two.toml").write_text(f'extends = "../{tmp_path.name}/one.toml"\n')
    with refused("extends-itself", "one.toml"):
        read_preset(tmp_path / "one.toml")


def test_overrides_are_toml_or_text() -> None:
    found = resolved_tables(
        "simcse", ["train.epochs=2", "encoder.backbone=some/model", "views.mlp=false"]
    )
    assert (found["train"]["epochs"], found["encoder"]["backbone"]) == (2, "some/model")
    assert "mlp" not in found["views"]
    for wrong in ("train.epochs", "=2", "a b=2"):
        with refused("not-key-value"):
            resolved_tables("simcse", [wrong])


def test_presets_that_read_documents() -> None:
    for name, maker in (
        ("crops", Crops(8, 24, True)),
        ("crops-raw", Crops(8, 24, True)),
        ("neighbours", Neighbours("sentence", 5)),
        ("title-body", TitleBody(16, 48)),
        ("distil-documents", Passages()),
    ):
        preset = read_preset(name)
        assert pair_maker(preset) == (maker, 8 if name == "distil-documents" else 2)
        assert preset.parts()[0].cls is type(maker)
        assert preset.train.select == []


@pytest.mark.parametrize(
    ("name", "expected"), [("simcse", False), ("simcse-bert-base", True), ("whitenedcse", False)]
)
def test_a_size_names_the_model_that_it_is_for(name: str, expected: bool) -> None:
    assert names_backbone(name) is expected


def test_a_file_of_the_users_may_name_its_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "simcse"\n[encoder]\nbackbone = "isotrope/small"\n')
    assert names_backbone(str(path))
