"""Trees as checkpoints give them back."""


def through_a_file(room, tree, path):
    """The tree as the room's checkpoints give it back."""
    with open(path, "wb") as file:
        room.backend.checkpoints.write(file, tree)
    return room.backend.checkpoints.read(path)
