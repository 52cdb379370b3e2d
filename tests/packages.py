"""A machine with a few small Python packages."""

from __future__ import annotations

from pathlib import Path

from conftest import sentences


def build_site(root: Path, packages: int = 12, functions: int = 12) -> tuple[Path, Path]:
    """A site-packages and a standard library of small packages, each function with a docstring of three sentences."""
    site, stdlib = root / "site", root / "stdlib"
    texts = iter(s.capitalize() for s in sentences(3 * functions * (packages + 1), seed=7))

    def module() -> str:
        parts = []
        for number in range(functions):
            first, second, third = (next(texts) for _ in range(3))
            parts.append(f'def f{number}():\n    """{first}.\n\n    {second}. {third}.\n    """\n')
        return "\n".join(parts)

    for number in range(packages):
        install(site, f"package{number}", {"__init__.py": module()})
    stdlib.mkdir(parents=True)
    (stdlib / "text.py").write_text(module())
    return site, stdlib


def install(site: Path, name: str, files: dict[str, str | bytes]) -> None:
    """A distribution with its metadata, as an installer leaves it."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, content in files.items():
        path = site / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (info / "RECORD").write_text("".join(f"{name}/{file},,\n" for file in files))
