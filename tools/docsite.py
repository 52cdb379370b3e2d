"""What mkdocs.yml cannot say: equations as MathML, links into the code, the README as home page,
the reference.

mkdocs loads this file as a hook.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "isotrope"
LINK = re.compile(
    r"\[([^\]]*)\]\(((?:\.\./)*)((?:src|tests|tools|benchmarks|examples)/[^)#]*"
    r"|CITATION\.cff|CONTRIBUTING\.md(?:#[^)]*)?|CHANGELOG\.md)\)"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Equations are blocks of ``math``, as on GitHub; the reference comes after the methods."""
    fences = [{"name": "math", "class": "math", "format": equation}]
    config["mdx_configs"]["pymdownx.superfences"] = {"custom_fences": fences}
    reference: list[Any] = [
        "reference.md",
        {"commands": "reference/commands.md"},
        *({name: f"reference/{name}.md"} for name, _ in rooms()),
    ]
    config["nav"].insert(-2, {"Reference": reference})
    return config


def equation(source: str, *_: Any, **__: Any) -> str:
    """LaTeX -> MathML, which browsers render without a script."""
    return str(convert(source, display="block"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages that are made from something else: the README and the docstrings."""
    home = (ROOT / "README.md").read_text(encoding="utf-8")
    # The home page lies in docs/: its links and its pictures begin there.
    home = home.replace("](docs/", "](").replace('="docs/', '="')
    made = {"index.md": home, "reference/commands.md": commands()}
    for name, modules in rooms():
        made[f"reference/{name}.md"] = "\n".join(
            [f"# {name}", *(f"\n::: {module}" for module in modules)]
        )
    for where, text in made.items():
        files.append(File.generated(config, where, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A link to a module's file leads to its place in the reference; other files are outside the
    site.
    """
    if page.file.src_uri == "reference.md":
        markdown = re.sub(r"^## (\w+)$", _with_all_arguments, markdown, flags=re.MULTILINE)
    return LINK.sub(lambda link: _linked(link[1], link[3]), markdown)


def _with_all_arguments(heading: re.Match[str]) -> str:
    """A heading of the reference, with a link to the docstring of its name."""
    from isotrope import _FACE

    target = _FACE[heading[1]].replace(":", ".")
    return f"{heading[0]}\n\nArguments and errors: [`{target}`][{target}]."


def _linked(text: str, path: str) -> str:
    module = path.removeprefix("src/").removesuffix(".py").rstrip("/").replace("/", ".")
    known = {module for _, modules in rooms() for module in modules}
    return f"[{text}][{module}]" if module in known else text


def rooms() -> Iterator[tuple[str, list[str]]]:
    """Each room of the package with its public modules; the commands have a page of their own."""
    for room in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        found = [path for path in sorted(room.rglob("*.py")) if not path.stem.startswith("_")]
        own = (
            [f"isotrope.{room.name}"]
            if (room / "__init__.py").read_text(encoding="utf-8").strip()
            else []
        )
        if room.name != "cli":
            yield room.name, [*own, *(_dotted(path) for path in found)]
    yield "types", ["isotrope.types", "isotrope.errors"]


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def commands() -> str:
    """Every command with its options, as ``--help`` has them."""
    import typer.main
    from typer.cli import get_docs_for_click

    from isotrope.cli.main import app

    group = typer.main.get_command(app)
    context: Any = group.make_context("isotrope", [], resilient_parsing=True)
    return str(get_docs_for_click(obj=group, ctx=context, name="isotrope"))
