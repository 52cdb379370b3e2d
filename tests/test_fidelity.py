"""The page on papers and code: what it says of sums and means is true, and its lists of items are
whole.
"""

import json
import re
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import typer.main
from torch import Tensor, nn

from helpers.paths import ROOT
from isotrope.cli.main import app
from isotrope.components.registry import STAGES, component_class, kinds
from isotrope.encoder.pooling import POOLINGS
from isotrope.errors import UserError
from isotrope.preset.preset import RECORDS, RESERVED, Preset, preset_names, read_preset
from isotrope.preset.sources import flat
from isotrope.preset.tables import shipped_names
from isotrope.terms.infonce import infonce

N, D, STEPS = 16, 16, 24


def moved(factor: float, longest: float) -> Tensor:
    """How far Adam moves a small encoder (D · D,) by InfoNCE times ``factor``, gradients clipped at
    ``longest``.

    The batches are easy and hard in turn: two views are nearly equal, or hardly alike.
    """
    torch.manual_seed(0)
    encoder = nn.Linear(D, D, bias=False).double()
    before = encoder.weight.detach().clone()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3, eps=0, weight_decay=0)
    for step in range(STEPS):
        texts = torch.randn(N, D, dtype=torch.float64)
        views = [
            encoder(texts + (0.3 if step % 4 else 1.0) * torch.randn_like(texts)) for _ in range(2)
        ]
        cosines = F.normalize(views[0], dim=-1) @ F.normalize(views[1], dim=-1).T
        optimizer.zero_grad()
        (factor * infonce(cosines, 0.05)).backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), longest)
        optimizer.step()
    return (encoder.weight.detach() - before).flatten()


def test_a_sum_under_clipping_is_not_a_mean_with_another_learning_rate() -> None:
    mean, total = moved(1, longest=1.0), moved(N, longest=1.0)
    assert torch.cosine_similarity(mean, total, dim=0) < 0.99, (
        "another direction, which no learning rate gives"
    )
    # torch adds 1e-6 to norms
    torch.testing.assert_close(moved(1, longest=1 / N), total, rtol=0, atol=1e-6)
    assert torch.equal(moved(1, longest=1e9).sign(), moved(N, longest=1e9).sign())
    torch.testing.assert_close(moved(1, longest=1e9), moved(N, longest=1e9), rtol=1e-9, atol=0)


def test_counts_of_sentences_are_those_of_the_result_file() -> None:
    text = " ".join((ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8").split())
    head, ours = list(
        json.loads((ROOT / "docs" / "results" / "lengths.json").read_text()).values()
    )[2:]
    read = head["kept"] + head["duplicates"]
    assert (
        f"Of the first {read:,} lines of SimCSE's Wikipedia, {head['duplicates']} are duplicates."
        in text
    )
    assert f"{head['share']:.1%} of the first {head['kept']:,} different".replace("%", " %") in text
    assert f"{ours['share']:.1%} of ours".replace("%", " %") in text


# What each paper numbers, read from its first page to its last. None has an algorithm.
PAPERS: dict[str, dict[str, list[str]]] = {
    "whitenedcse": {
        "Eq. ": [str(n) for n in range(1, 14)],
        "Table ": list("123456"),
        "Figure ": ["1a", "1b", "1c", "1d", "2", "3"],
        "Footnote ": list("12"),
        "Sec. ": ["3.1", "3.2.1", "3.2.3", "3.3", "4.1", "4.2", "4.3", "4.4", "5.1", "5.2", "5.3"],
    },
    "dclr": {
        "Eq. ": list("123456"),
        "Table ": list("12"),
        "Figure ": list("123456"),
        "Footnote ": list("12"),
        "Sec. ": ["3", "4.1", "4.2", "4.3", "5.1", "5.2", "6.1", "6.2", "6.3", "6.4", "6.5"],
    },
    "rankcse": {
        "Eq. ": list("12345678"),
        "Table ": [str(n) for n in range(1, 14)],
        "Figure ": ["1", "2", "3a", "3b", "4", "5"],
        "Footnote ": list("12"),
        "Appendix ": list("ABCDEFGH"),
        "Sec. ": ["3", "4.2", "4.3", "4.4", "5.1", "5.2", "5.3", "6"],
    },
}
# The rows of the papers' large tables: every method that has a line there.
METHODS = {
    (
        "whitenedcse",
        "1",
    ): "GloVe|first-last avg.|flow|whitening|IS-BERT|CT-BERT|ConSERT|SimCSE|DCLR|ArcCSE|DeCLUTR",
    (
        "whitenedcse",
        "2",
    ): "GloVe|Skip-thought|Avg. BERT|BERT-[CLS]|IS-BERT|SimCSE|MoCoSE|ArcCSE|WhitenedCSE",
    ("whitenedcse", "3"): "none|PCA|ZCA|group|shuffled group",
    (
        "dclr",
        "1",
    ): "GloVe|USE|CLS|Mean|First-Last AVG|flow|whitening|Contrastive (BT)|ConSERT|SG-OPT|SimCSE|DCLR",
    (
        "dclr",
        "2",
    ): "without noise|without weights|Random Noise|Knowledge Distillation|Self Instance Weighting",
    (
        "rankcse",
        "2",
    ): "GloVe|USE|first-last avg.|flow|whitening|IS|ConSERT|SimCSE|DCLR|ArcCSE|DiffCSE|PaSeR|PCL",
    ("rankcse", "3"): "GloVe|Skip-thought|last avg.|IS|SimCSE|ArcCSE|DiffCSE|PCL|listNet|listMLE",
    ("rankcse", "5"): "SimCSE base|SimCSE large|DiffCSE base",
}
LISTS = ROOT / "docs" / "results" / "fidelity"
PAGES = [ROOT / "docs" / "fidelity.md", *(LISTS / f"{paper}.md" for paper in PAPERS)]
STATES = ("as published", "our choice, because ", "not done")


def page(paper: str) -> str:
    return (LISTS / f"{paper}.md").read_text(encoding="utf-8")


def items(text: str) -> list[list[str]]:
    """[item, where, state] of each row of a page's tables."""
    rows = [
        re.split(r" \| ", line.strip("| \n")) for line in text.splitlines() if line.startswith("| ")
    ]
    return [row for row in rows if row[0] != "item"]


def missing(paper: str, text: str) -> list[str]:
    """What the paper has and the page's first column lacks."""
    named = [row[0] for row in items(text)]
    found = []
    for kind, numbers in PAPERS[paper].items():
        for number in numbers:
            # "Figure 1a, 1b" and "Sec. 4.2, 4.3" name two
            pattern = rf"(?<!\w){re.escape(kind)}(?:[\w.]+, )*{re.escape(number)}(?![\w.]*\w)"
            found += [] if any(re.search(pattern, one) for one in named) else [kind + number]
    for (where, number), methods in METHODS.items():
        if where == paper:
            rows = " ".join(one for one in named if re.search(rf"Table {number}(?!\d)", one))
            found += [f"Table {number}: {name}" for name in methods.split("|") if name not in rows]
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_of_a_paper_has_a_state_and_every_choice_a_reason(paper: str) -> None:
    assert missing(paper, page(paper)) == []
    for row in items(page(paper)):
        assert len(row) == 3, row
        assert row[2].startswith(STATES), row
        assert row[2].count("our choice") == row[2].count("our choice, because "), row
    assert {name for name in shipped_names("study") if name.startswith(f"{paper}-")} <= set(
        names(page(paper))
    )


def test_a_missing_item_is_found() -> None:
    gone = ["Eq. 5", "Table 10", "Appendix B", "DiffCSE base"]
    lines = [
        line
        for line in page("rankcse").splitlines()
        if not any(one in line.split(" | ")[0] for one in gone)
    ]
    assert {"Eq. 5", "Table 10", "Appendix B", "Table 5: DiffCSE base"} <= set(
        missing("rankcse", "\n".join(lines))
    )
    assert not set(missing("rankcse", "\n".join(lines))) & {"Eq. 1", "Figure 2", "Table 1"}


def known(name: str) -> bool:
    """Whether a name in code is a study, preset, pooling, kind, file, command or option, or a key
    and its value.
    """
    components = (kind for stage in STAGES for kind in kinds(stage))
    if name in (*shipped_names("study"), *preset_names(), *POOLINGS, *components):
        return True
    if name.startswith("isotrope "):
        return known_command(name.split()[1:])
    if name.startswith("--"):
        return any(
            known_command([command, *name.split()]) for command in ("train", "study", "evaluate")
        )
    if name.startswith("python -m "):
        name = name.removeprefix("python -m ").split()[0].replace(".", "/") + ".py"
    if "/" in name:
        return any((place / name).exists() for place in (ROOT, ROOT / "src" / "isotrope"))
    settings = [part.partition(" = ") for part in name.split(", ")]
    values = [f"{key}={value}" for key, sign, value in settings if sign]
    return all(known_key(key) for key, _, _ in settings) and (
        not values or any(possible(p, values) for p in presets())
    )


def known_command(words: list[str]) -> bool:
    command: Any = typer.main.get_command(app)
    for word in words:
        if hasattr(command, "commands"):
            if word not in command.commands:
                return False
            command = command.commands[word]
        elif word.startswith("-") and not any(word in option.opts for option in command.params):
            return False
    return True


@cache
def presets() -> list[Preset]:
    return [read_preset(name) for name in preset_names()]


def known_key(key: str) -> bool:
    """``train.key``, ``stage.label`` or ``stage.label.option``; a label is one of a shipped preset,
    or a kind.
    """
    stage, _, rest = key.partition(".")
    label, _, option = rest.partition(".")
    if stage in RECORDS:
        return rest in RECORDS[stage].model_fields
    if stage not in STAGES or label in RESERVED:
        return stage in STAGES and not option
    tables = [
        getattr(preset, stage)[label] for preset in presets() if label in getattr(preset, stage)
    ]
    tables += [{}] if label in kinds(stage) else []
    makes = [
        component_class(stage, table.get("kind", "mixture" if stage == "teachers" else label))
        for table in tables
    ]
    return any(option in ("", "kind", *signature(made).parameters) for made in makes)


def possible(preset: Preset, overrides: list[str]) -> bool:
    try:
        read_preset(preset.name, overrides)
    except UserError:
        return False
    return True


def names(text: str) -> list[str]:
    """What is in code, except words that begin with a single dash."""
    return [name for name in re.findall(r"`([^`]+)`", text) if not re.match(r"-\w", name)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_named_study_preset_file_and_key_exists(path: Path) -> None:
    assert [name for name in names(path.read_text(encoding="utf-8")) if not known(name)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    wrong = [
        "whitenedcse-table7",
        "views/nothing.py",
        "isotrope nothing",
        "isotrope train --nothing",
        "views.sgw.nothing",
        "train.nothing",
        "nothing",
        "views.sgw.groups = none",
        "views.passes = 0",
        "released.nothing",
    ]
    assert names(f"| Eq. 1 | `views/sgw.py`, `{wrong[0]}` |") == ["views/sgw.py", wrong[0]]
    assert [name for name in wrong if known(name)] == []


# Settings that the pages call "as published", from WhitenedCSE Sec. 4.1, DCLR Sec. 5.1, RankCSE
# Appendix A and Table 9.
STATED: dict[str, dict[str, Any]] = {
    "whitenedcse": {
        "train.learning_rate": 3e-5, "train.batch_size": 64, "train.epochs": 1, "terms.infonce.temperature": 0.05,
        "views.passes": 3, "train.eval_steps": 125, "train.select": ["stsb-dev"], "encoder.pooling": "cls",
    },
    "dclr": {
        "train.epochs": 3, "terms.infonce.temperature": 0.05, "scores.noise.steps": 4, "scores.noise.step_size": 1e-3,
        "train.eval_steps": 150, "train.select": ["stsb-dev", "sickr-dev"], "encoder.pooling": "cls",
        "train.weight_decay": 0,
    },
    "rankcse": {
        "train.epochs": 4, "train.batch_size": 128, "train.warmup": 0.05, "train.schedule": "linear",
        "terms.infonce.temperature": 0.05, "terms.consistency.temperature": 0.05, "terms.consistency.weight": 1,
        "teachers.rank.weights": [1, 2], "train.eval_steps": 125, "train.select": ["stsb-dev"],
        "encoder.pooling": "cls",
    },
}  # fmt: skip
VARYING: dict[str, tuple[str, ...]] = {
    "whitenedcse": ("views.sgw.groups",),
    "dclr": (
        "train.batch_size",
        "train.learning_rate",
        "scores.instance_weight.threshold",
        "scores.noise.ratio",
    ),
    "rankcse-listnet": (
        "train.learning_rate",
        "terms.rank.temperature",
        "terms.rank.teacher_temperature",
    ),
    "rankcse-listmle": ("train.learning_rate", "terms.listmle.temperature"),
}
BY_MODEL: dict[str, dict[str, tuple[float, ...]]] = {
    "bert-base": {
        "whitenedcse": (384,), "dclr": (128, 3e-5, 0.9, 1), "rankcse-listnet": (3e-5, 0.025, 0.0125),
        "rankcse-listmle": (2e-5, 0.05),
    },
    "bert-large": {  # 384 groups do not divide 1024 channels
        "whitenedcse": (512,), "dclr": (256, 3e-5, 0.9, 4), "rankcse-listnet": (3e-5, 0.05, 0.025),
        "rankcse-listmle": (2e-5, 0.05),
    },
    "roberta-base": {
        "whitenedcse": (256,), "dclr": (128, 3e-5, 0.85, 2.5), "rankcse-listnet": (2e-5, 0.05, 0.025),
        "rankcse-listmle": (3e-5, 0.05),
    },
    "roberta-large": {
        "whitenedcse": (256,), "dclr": (256, 1e-5, 0.85, 5), "rankcse-listnet": (3e-5, 0.025, 0.0125),
        "rankcse-listmle": (3e-5, 0.025),
    },
}  # fmt: skip


@pytest.mark.parametrize("model", BY_MODEL)
def test_settings_that_are_called_as_published_are_the_papers(model: str) -> None:
    for method, values in BY_MODEL[model].items():
        found = flat(read_preset(f"{method}-{model}"))
        expected = STATED[method.split("-")[0]] | dict(zip(VARYING[method], values, strict=True))
        assert {key: found.get(key) for key in expected} == expected, method
