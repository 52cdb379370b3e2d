"""Text: files → rows → a cleaned, memory-mapped corpus → tokens → batches."""
