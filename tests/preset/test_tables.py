"""A preset's file: what it extends and from where, overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.preset.tables import resolved_tables


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


def test_a_relative_extends_is_found_from_the_presets_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("mine", "mine/shared", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mine" / "top.toml").write_text('extends = "shared/middle.toml"\n')
    (tmp_path / "mine" / "shared" / "middle.toml").write_text('extends = "base.toml"\n')
    (tmp_path / "mine" / "shared" / "base.toml").write_text('extends = "simcse"\n[train]\nepochs = 7\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "base.toml").write_text('extends = "simcse"\n[train]\nepochs = 9\n')
    for name in (tmp_path / "mine" / "top.toml", "../mine/top.toml"):
        assert read_preset(name).train.epochs == 7
    (tmp_path / "mine" / "shared" / "base.toml").unlink()
    with pytest.raises(UserError, match=r"preset base\.toml, which middle\.toml extends, does not exist") as error:
        read_preset("../mine/top.toml")
    assert str(tmp_path / "mine" / "shared") in one_line(error)


def test_a_circle_is_named_whatever_the_paths_are_called(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "./two.toml"\n')
    (tmp_path / "two.toml").write_text(f'extends = "../{tmp_path.name}/one.toml"\n')
    with pytest.raises(UserError, match="extends itself") as error:
        read_preset(tmp_path / "one.toml")
    assert "one → two → one" in one_line(error)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('description = "é"\n'.encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.toml is not valid TOML"):
        read_preset(tmp_path / "latin.toml")
    (tmp_path / "broken.toml").write_text("[train\n")
    with pytest.raises(UserError, match=r"broken\.toml is not valid TOML"):
        read_preset(tmp_path / "broken.toml")
    (tmp_path / "number.toml").write_text("extends = 3\n")
    with pytest.raises(UserError, match=r"extends = 3 is not possible"):
        read_preset(tmp_path / "number.toml")


def test_overrides_are_toml_or_text() -> None:
    found = resolved_tables("simcse", ["train.epochs=2", "encoder.backbone=some/model", "views.mlp=false"])
    assert (found["train"]["epochs"], found["encoder"]["backbone"]) == (2, "some/model")
    assert "mlp" not in found["views"]
    for wrong in ("train.epochs", "=2", "a b=2"):
        with pytest.raises(UserError, match="key=value"):
            resolved_tables("simcse", [wrong])
