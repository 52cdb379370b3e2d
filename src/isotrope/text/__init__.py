"""Text: whatever the user gives → opened text → cleaned rows or documents → tokens → batches."""

from isotrope.text.corpus import Document, Documents, Texts
from isotrope.text.source import TextLike, TextPath, TextSource, read_text

__all__ = ["Document", "Documents", "TextLike", "TextPath", "TextSource", "Texts", "read_text"]
