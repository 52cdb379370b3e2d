"""Text: whatever the user gives → opened text → cleaned rows or documents → tokens → batches."""

from isotrope.text.corpus import Documents, Texts
from isotrope.text.opened import Opened, open

__all__ = ["Documents", "Opened", "Texts", "open"]
