"""A training run: settings → prepare → fit → judge, and the one format of its folder."""
