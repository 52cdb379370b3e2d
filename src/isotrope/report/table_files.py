"""Tables as files. The ending of the file's name decides the format."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isotrope.errors import UserError
from isotrope.report.page import Page
from isotrope.report.tables import Table, latex, markdown
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing

TABLE_FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {
    ".md": markdown,
    ".tex": latex,
    ".html": lambda tables: Page("isotrope evaluate", tables=tables).html(),
}


def check_table_file(path: str | Path) -> Path:
    """As `check_file`, of a file that tables will be written to; UserError also for an unknown ending."""
    target = Path(path)
    if target.suffix not in TABLE_FORMATS:
        raise UserError(f"{target.name}: unknown format for tables", f"let it end with {', '.join(TABLE_FORMATS)}")
    return check_file(target)


def check_file(target: Path) -> Path:
    """Check, before long work, a file that its result will be written to -> its path.

    Raises UserError where its folder does not exist or cannot be written to, or where it is a folder or a device.
    """
    target = target.resolve() if target.is_symlink() else target
    if target.exists() and not target.is_file():
        raise UserError(f"{target} is {'a folder' if target.is_dir() else 'not an ordinary file'}", "name a file")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent} does not exist, so {target.name} cannot be written", "make the folder")
    if not os.access(target.parent, os.W_OK):
        raise UserError(f"{target.parent} cannot be written to", "choose another folder")
    return target


def write_tables(tables: Sequence[Table], target: Path) -> None:
    """Write tables in the format of the file's ending, whole or not at all; UserError where the disk is full."""
    with writing(target.parent, again="run the same command again"):
        write_text(target, TABLE_FORMATS[target.suffix](tables))
