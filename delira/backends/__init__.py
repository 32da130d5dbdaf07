"""The backends: one folder for each framework. Nothing is imported until a backend is used."""
