"""Trees as checkpoints give them back."""


def through_a_file(kit, tree, path):
    """The tree as the backend's checkpoints give it back."""
    with open(path, "wb") as file:
        kit.backend.checkpoints.write(file, tree)
    return kit.backend.checkpoints.read(path)
