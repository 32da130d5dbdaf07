"""The rooms: one folder for each framework. Nothing is imported until a room is used."""
