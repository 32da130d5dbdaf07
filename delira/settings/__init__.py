"""Everything that a training can be told: each setting with its meaning and its check, stated once."""
