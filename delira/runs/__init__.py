"""A run on disk: its folder and ledger, the files of its folds, reading them back, and what differs between runs."""
