"""A module of flax in a Trial, with ``nnx.Optimizer`` and ``nnx.Metric`` as flax' own examples make them."""

import numpy as np
import optax
from flax import nnx

from delira import Trial

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 3)).astype(np.float32)
y = (x[:, 0] > 0).astype(np.int32)

model = nnx.Linear(3, 2, use_bias=False, kernel_init=nnx.initializers.zeros, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.5), wrt=nnx.Param)
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))


def criterion(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits=logits, labels=labels).mean()


history = (
    Trial(model, optimizer, criterion, [metrics], verbose=0)
    .with_train_data(x, y, batch_size=40).with_val_data(x, y, batch_size=20).run(3)
)  # fmt: skip

w = np.zeros((3, 2))
for _ in range(3):
    p = np.exp(x @ w) / np.exp(x @ w).sum(axis=1, keepdims=True)
    w -= 0.5 * x.T @ (p - np.eye(2)[y]) / 40
p = np.exp(x @ w) / np.exp(x @ w).sum(axis=1, keepdims=True)
np.testing.assert_allclose(np.asarray(model.kernel[...]), w, rtol=1e-4, atol=1e-6)
np.testing.assert_allclose(history[-1]["val_accuracy"], np.mean(p.argmax(axis=1) == y), rtol=1e-6)
np.testing.assert_allclose(history[-1]["val_loss"], np.mean(-np.log(p[np.arange(40), y])), rtol=1e-4)
