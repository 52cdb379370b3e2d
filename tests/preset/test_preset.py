"""Presets: what ships is valid and cited; what is wrong is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import isotrope
from isotrope.cli.presets import app
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, check_third_parties, preset_names, read_preset
from isotrope.preset.sources import annotated, cited_sources, flat
from isotrope.preset.tables import preset_descriptions


def test_every_shipped_preset_is_whole(tmp_path: Path) -> None:
    """It resolves, reads back, says what it is, and cites a source for each of its settings."""
    assert list(preset_descriptions()) == preset_names()
    for name in preset_names():
        preset = read_preset(name)
        path = tmp_path / f"{name}.toml"
        path.write_text(preset.toml(), encoding="utf-8")
        assert read_preset(str(path)).model_dump(exclude={"name"}) == preset.model_dump(exclude={"name"})
        assert preset.description
        assert preset.description == preset_descriptions()[name]
        assert ("[pairs]" in preset.toml()) == (preset.pairs is not None)
        for key, value in cited_sources(name).items():
            assert value or key in {"description", "extends", "name"}, f"{name}: {key} has no source"


def test_show_names_the_source_of_every_line() -> None:
    text = annotated("simcse-bert-base", ["train.batch_size=32"])
    assert "batch_size = 32                     # --set" in text
    assert all("#" in line for line in text.splitlines() if " = " in line and not line.startswith("description"))
    assert 'order = ["hard_negatives", "noise", "instance_weight"] # DCLR Eq. 6' in annotated("all-three").splitlines()


@pytest.mark.parametrize(
    ("name", "batch_size", "learning_rate"),
    [("bert-base", 64, 3e-5), ("bert-large", 64, 1e-5), ("roberta-base", 512, 1e-5), ("roberta-large", 512, 3e-5)],
)
def test_simcse_as_published(name: str, batch_size: int, learning_rate: float) -> None:
    """The settings of shared notes and of the paper's appendix, for each backbone."""
    found = flat(read_preset(f"simcse-{name}"))
    expected = {
        "train.batch_size": batch_size, "train.learning_rate": learning_rate, "train.epochs": 1.0,
        "train.weight_decay": 0.0, "train.warmup": 0.0, "train.schedule": "linear", "train.max_grad_norm": 1.0,
        "train.max_length": 32, "terms.infonce.temperature": 0.05, "encoder.pooling": "cls", "views.passes": 2,
        "views.mlp": {}, "encoder.dropout": 0.1,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected


def test_extends_overrides_and_removal(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "simcse-bert-base"\n[train]\nbatch_size = 16\n[views]\nmlp = false\n'
        '[terms.wide]\nkind = "infonce"\ntemperature = 0.1\n'
    )
    preset = read_preset(str(path), ["train.epochs=2", "encoder.backbone=some/model"])
    assert (preset.train.batch_size, preset.train.epochs, preset.encoder.backbone) == (16, 2.0, "some/model")
    assert preset.views == {"passes": 2}
    assert list(preset.terms) == ["infonce", "wide"]


def test_order_names_every_table_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"views\.order.*'mlp'"):
        read_preset("simcse", ['views.order=["mlp", "sgw"]'])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "dclr-bert-base",
            {"scores.noise.ratio": 1.0, "scores.instance_weight.threshold": 0.9, "train.batch_size": 128},
        ),
        ("dclr-roberta-base", {"scores.noise.ratio": 2.5, "scores.instance_weight.threshold": 0.85}),
        ("dclr-bert-large", {"scores.noise.ratio": 4.0, "train.batch_size": 256, "train.learning_rate": 3e-5}),
        ("dclr-roberta-large", {"scores.noise.ratio": 5.0, "train.learning_rate": 1e-5}),
        ("rankcse-listnet-bert-base", {"terms.rank.temperature": 0.025, "terms.rank.teacher_temperature": 0.0125}),
        ("rankcse-listnet-roberta-base", {"terms.rank.temperature": 0.05, "train.learning_rate": 2e-5}),
        ("rankcse-listmle-bert-base", {"terms.listmle.temperature": 0.05, "train.learning_rate": 2e-5}),
        ("rankcse-listmle-roberta-large", {"terms.listmle.temperature": 0.025, "teachers.rank.weights": [1, 2]}),
        ("whitenedcse-bert-base", {"views.sgw.groups": 384, "views.sgw.copies": 1, "views.passes": 3}),
        ("whitenedcse-bert-large", {"views.sgw.groups": 512, "train.learning_rate": 3e-5}),
        (
            "whitenedcse-bert-base-released",
            {
                "views.sgw.groups": 128,
                "views.sgw.copies": 1,
                "views.passes": 3,
                "views.sgw.kind": "released.detach",
                "train.batch_size": 128,
                "train.accumulation": 2,
                "train.learning_rate": 1e-5,
                "train.eval_steps": 125,
            },
        ),
    ],
)
def test_the_papers_rows(name: str, expected: dict[str, object]) -> None:
    found = flat(read_preset(name))
    assert {key: found[key] for key in expected} == expected


def test_a_teacher_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r"scores\.instance_weight\.teacher = 'nobody'"):
        read_preset("dclr", ["scores.instance_weight.teacher=nobody"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # epochs, sentences a process, rate, k, φ, backbone and guide of run.sh
        ("bert-base", (3.0, 128, 3e-5, 1.0, 0.9, "bert-base-uncased", "simcse-bert-base")),
        ("roberta-base", (3.0, 128, 3e-5, 2.5, 0.85, "roberta-base", "simcse-roberta-base")),
        ("bert-large", (1.0, 64, 3e-5, 3.0, 0.9, "simcse-bert-large", "simcse-bert-base")),
        ("roberta-large", (1.0, 64, 1e-5, 5.0, 0.85, "simcse-roberta-large", "simcse-roberta-base")),
    ],
)
def test_dclr_as_released(name: str, expected: tuple[object, ...]) -> None:
    preset = read_preset(f"dclr-{name}-released")
    found = flat(preset)
    keys = ["train.epochs", "train.batch_size", "train.learning_rate", "scores.noise.ratio",
            "scores.instance_weight.threshold", "encoder.backbone"]  # fmt: skip
    assert (*(found[key] for key in keys), *preset.teachers["guide"]["models"]) == expected
    assert ("mlp" in preset.views) == ("base" in name), "large models have no head behind their pooler"
    others = {
        "train.eval_steps": 125, "train.select": ["stsb-dev", "sickr-dev"], "encoder.pooling": "cls_head",
        "tokens.no_mask.kind": "released.no_mask", "tokens.no_mask.on": [0, 1],
        "scores.instance_weight.kind": "released.zero_logit", "scores.instance_weight.noise": False,
        "scores.noise.kind": "released.against_batch", "terms.softmax_bce.kind": "released.softmax_bce",
        "terms.softmax_bce.temperature": 0.05,
    }  # fmt: skip
    assert {key: found[key] for key in others} == others
    assert "infonce" not in preset.terms


@pytest.mark.parametrize("kind", ["listnet", "listmle"])
def test_rankcse_as_the_community_has_it(kind: str) -> None:
    found = flat(read_preset(f"rankcse-{kind}-bert-base-released"))
    expected = {
        "terms.consistency.kind": "released.clamped", "train.epochs": 1.0, "train.learning_rate": 3e-5,
        "train.warmup": 0.0, "train.eval_steps": 125, "train.batch_size": 128, "teachers.rank.weights": [0.33, 0.67],
        "teachers.rank.pooling": ["cls", "cls"],
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    student = found["terms.rank.temperature" if kind == "listnet" else "terms.listmle.temperature"]
    assert student == found["terms.infonce.temperature"] == 0.05
    if kind == "listnet":
        assert found["terms.rank.teacher_temperature"] == 0.05, "tau 2 of its script; half of it is not used"
    else:
        assert found["terms.listmle.kind"] == "released.floored"


@pytest.mark.parametrize("label", ["score", "loss"])
def test_a_term_with_the_name_of_a_field_of_the_log_is_refused(label: str) -> None:
    with pytest.raises(UserError, match=rf"terms\.{label}: the run's log has a field of that name: choose another"):
        read_preset("simcse", [f"terms.{label}.kind=infonce"])
    assert label not in read_preset("simcse", [f"scores.{label}.kind=noise"]).terms


@pytest.mark.parametrize("on", ["1", "[]", '["one"]'])
def test_the_passes_of_a_token_step_are_a_list(on: str) -> None:
    with pytest.raises(UserError, match=r"tokens\.shuffle\.on = .* is not possible.*on = \[1\]"):
        read_preset("simcse", [f"tokens.shuffle.on={on}"])
    assert read_preset("simcse", ["tokens.shuffle.on=[0, 1]"]).tokens["shuffle"]["on"] == [0, 1]


def test_the_width_is_the_models() -> None:
    with pytest.raises(UserError, match=r"views\.mlp\.dim is an unknown key.*the model's width"):
        read_preset("simcse", ["views.mlp.dim=5"])


def test_reading_a_preset_imports_nothing_of_a_third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ``show`` or ``diff``; and what is not a component is refused when a run starts, whatever it is."""
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text('extends = "simcse"\n[terms.x]\nkind = "loud:Thing"\nargs = ["touch", "x"]\n')
    runner = CliRunner()
    for command in (["show", str(path)], ["diff", "simcse", str(path)]):
        done = runner.invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "loud:Thing" in done.output
    with pytest.raises(SystemExit):
        check_third_parties(read_preset(path))


def test_a_preset_cannot_run_any_callable(tmp_path: Path, corpus_file: Path, tiny_model: Path) -> None:
    """Before anything is written, a class that is not a component is refused, and not called."""
    touched = tmp_path / "touched"
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "simcse"\n[terms.x]\nkind = "subprocess:Popen"\nargs = ["touch", "{touched}"]\n')
    with pytest.raises(UserError, match=r"'subprocess:Popen' is not a component of terms.*stage = \"terms\""):
        isotrope.train(corpus_file, output=tmp_path / "run", preset=path, model=str(tiny_model), dev="none")
    with pytest.raises(UserError, match="not a component"):
        build_objective(read_preset(path), isotrope.load(tiny_model, "mean", device="cpu"))
    assert not touched.exists()


def test_a_component_of_another_stage_is_refused() -> None:
    with pytest.raises(UserError, match="is not a component of views"):
        check_third_parties(read_preset("simcse", ["views.x.kind=isotrope.terms.infonce:InfoNCE"]))
    with pytest.raises(UserError, match=r"terms has no kind 'released\.detach': .*choose one of .*released\.clamped"):
        read_preset("simcse", ["terms.x.kind=released.detach"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train.batchsize=32", "train.batch_size"),
        ("batch_size=32", "train.batch_size"),
        ("trains.batch_size=32", "train.batch_size"),
        ("max_len=64", "train.max_length"),
        ("encoder.drop=0.1", "encoder.dropout"),
        ("terms.infonce.temp=0.1", "terms.infonce.temperature"),
        ("temperature=0.1", "terms.infonce.temperature"),
        ("term.infonce.temperature=0.1", "terms.infonce.temperature"),
        ("terms.infonc.temperature=0.1", "infonce"),
    ],
)
def test_a_mistyped_key_gets_the_nearest_one(typed: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{re.escape(meant)}'"):
        read_preset("simcse", [typed])


def test_a_key_that_is_near_none_gets_no_guess() -> None:
    with pytest.raises(UserError, match="zzz is an unknown key: the keys here are name") as caught:
        read_preset("simcse", ["zzz=1"])
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("train.batch_size=many", "a whole number"),
        ("train.batch_size=1.5", "a whole number"),
        ("train.learning_rate=fast", "a number"),
        ("train.compile=maybe", "true or false"),
        ("encoder.backbone=5", "text in quotes"),
        ("train=5", "a table of keys"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_in_plain_words(typed: str, wanted: str) -> None:
    with pytest.raises(UserError, match=f"is not possible: it should be {wanted}$"):
        read_preset("simcse", [typed])


@pytest.mark.parametrize(
    ("preset", "typed", "said"),
    [
        ("rankcse-listnet", "teachers.rank.max_length=trains",
         r"^teachers\.rank\.max_length = 'trains' is not possible: it should be a whole number or 'train' or a list$"),
        ("whitenedcse", "views.sgw.running=after", "it should be true, false or 'before'$"),
    ],
)  # fmt: skip
def test_a_key_of_several_kinds_of_values_names_them_all(preset: str, typed: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_preset(preset, [typed])


def test_a_mistyped_preset_gets_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"'simsce' is unknown: did you mean 'simcse'. choose one of"):
        read_preset("simsce")
    with pytest.raises(UserError, match="did you mean 'simcse'"):
        read_preset("SIMCSE")


def test_peers_are_read_and_leave_no_word_where_there_are_none() -> None:
    """A word would change the keys of runs and studies that know no second encoder."""
    assert "peers" not in read_preset("simcse").toml()
    preset = read_preset("simcse", ["peers.slow.kind=moving_average", "peers.slow.on=[1]", "peers.slow.decay=0.9"])
    assert 'kind = "moving_average"' in preset.toml()
    for wrong, said in {
        "peers.slow.on=[99]": r"peers\.slow\.on = \[99\] is not possible: list the passes",
        "peers.slow.decay=1.5": r"peers\.slow\.decay = 1\.5 is not possible",
        "peers.other.decay=0.5": "peers has no kind 'other'",
    }.items():
        with pytest.raises(UserError, match=said):
            read_preset("simcse", ["peers.slow.kind=moving_average", wrong])
    loss = "sentence_transformers.sentence_transformer.losses:MultipleNegativesRankingLoss"
    off = [f"{stage}=false" for stage in ("views", "scores", "terms")]
    with pytest.raises(UserError, match=r"\[peers\] has no effect with loss"):
        read_preset("simcse", [f"loss={loss}", *off, "peers.trained.on=[1]"])
