"""A preset's file: what it extends and from where, bounds on depth and length, overrides."""

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


def test_a_chain_of_1500_is_refused(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"{number}.toml").write_text(f'extends = "{number + 1}.toml"\n')
    (tmp_path / "1500.toml").write_text('extends = "simcse"\n')
    with pytest.raises(UserError, match=r"0\.toml extends more than 32 presets in a row") as error:
        read_preset(tmp_path / "0.toml")
    one_line(error)
    assert read_preset(tmp_path / "1480.toml").train.epochs == 1


@pytest.mark.parametrize(
    "text",
    [
        f"[{'.'.join('a' * 3000)}]\nb = 1\n",
        f"[terms]\na = {'[' * 3000}{']' * 3000}\n",
        f"[terms]\na = {'{b = ' * 3000}1{'}' * 3000}\n",
        f"{'.'.join('a' * 3000)} = 1\n",
    ],
    ids=["tables", "lists", "inline", "dotted"],
)
def test_3000_levels_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(f'extends = "simcse"\n{text}' if text[0] != "a" else text)
    with pytest.raises(UserError, match=r"nests tables or lists more than 8 deep") as error:
        read_preset(tmp_path / "deep.toml")
    assert "deep.toml" in one_line(error)


@pytest.mark.parametrize("override", [f"{'.'.join('a' * 3000)}=1", f"terms.a={'[' * 3000}{']' * 3000}"])
def test_an_override_of_3000_levels_is_refused(override: str) -> None:
    with pytest.raises(UserError) as error:
        read_preset("simcse", [override])
    one_line(error)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('description = "é"\n'.encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.toml cannot be read"):
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
