"""The residual network: as many weights as the paper's, and a block of it."""

import numpy as np
import tensorflow as tf

from delira.models.classification import ResNet18  # refused
from delira.models.classification.ResNet18 import ResBlock, get_image_format_and_axis  # refused

assert get_image_format_and_axis() == ("channels_last", 3)
network = ResNet18(num_classes=10)
assert network(tf.zeros((1, 32, 32, 3)), training=False).shape == (1, 10)
# the 11,689,512 of 1,000 classes, with ten of them
count = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
assert count == 11_689_512 - 1000 * 513 + 10 * 513
assert ResBlock(4, 8, 2, 3)(tf.zeros((2, 6, 6, 4))).shape == (2, 3, 3, 8)
