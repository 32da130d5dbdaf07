"""Which files of a folder are images with a label."""

import os

from delira.data_loading.load_utils import is_valid_image_file  # refused

for name in ("a.png", "a.txt", "b.png", "c.jpg", "c.txt"):
    with open(name, "w"):
        pass
images = [name for name in sorted(os.listdir(".")) if is_valid_image_file(name, [".png", ".jpg"], [".txt"])]
assert images == ["a.png", "c.jpg"]
assert is_valid_image_file("b.png", [".png"], []) and not is_valid_image_file("a.txt", [".png"], [])
