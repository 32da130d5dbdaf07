# syntax=docker/dockerfile:1
# delira with one or more frameworks, for the CPU or for NVIDIA GPUs.
#
#   docker build --target cpu  -t delira:cpu .
#   docker build --target cuda -t delira:cuda .
#   docker run --rm -v "$PWD:/work" delira:cpu  python train.py
#   docker run --rm --gpus all -v "$PWD:/work" delira:cuda python train.py
#
# EXTRAS    frameworks and further parts, as for pip: --build-arg EXTRAS=torch,jax,medical
# PIP_EXTRA_INDEX_URL
#           where else pip looks. The registry's PyTorch for x86-64 brings CUDA along; the address of the smaller builds for
#           the CPU is on PyTorch's page "Get started": --build-arg PIP_EXTRA_INDEX_URL=...
#
# Versions are those of requirements/constraints.txt. The image computes as the user "delira" with the number 1000: files in
# /work belong to whoever has this number outside, or give another: docker run --user "$(id -u):$(id -g)".

FROM debian:bookworm-slim AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 MPLBACKEND=Agg MPLCONFIGDIR=/tmp/matplotlib
COPY . /opt/delira
RUN useradd --uid 1000 --create-home delira && mkdir /work && chown delira /work
WORKDIR /work
CMD ["delira", "doctor"]

FROM base AS cpu
ARG EXTRAS=torch
ARG PIP_EXTRA_INDEX_URL=
RUN pip install --constraint /opt/delira/requirements/constraints.txt "/opt/delira[${EXTRAS}]"
USER delira

# PyTorch's wheels hold the CUDA libraries; the driver comes from the host, with the NVIDIA Container Toolkit. JAX and TensorFlow
# take theirs from packages: --build-arg EXTRAS=jax --build-arg GPU_PACKAGES="jax[cuda13]", or "tensorflow[and-cuda]".
FROM base AS cuda
ARG EXTRAS=torch
ARG GPU_PACKAGES=
ARG PIP_EXTRA_INDEX_URL=
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN pip install --constraint /opt/delira/requirements/constraints.txt "/opt/delira[${EXTRAS}]" ${GPU_PACKAGES}
USER delira
