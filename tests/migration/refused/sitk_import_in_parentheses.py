# -*- coding: utf-8 -*-
"""Naïve Größen: an import over several lines, of which some names stay."""

import numpy as np
import SimpleITK as sitk

from delira.utils import (
    bounding_box,
    max_energy_slice,
    now,
    sitk_resample_to_shape,  # refused
    subdirs,
)

größe = sitk_resample_to_shape(sitk.GetImageFromArray(np.ones((2, 2, 2))), 4, 2, 2)
assert größe.GetSize() == (4, 2, 2)
np.testing.assert_allclose(größe.GetSpacing(), (0.5, 1, 1))
assert len(now()) == 19
np.testing.assert_array_equal(np.ravel(bounding_box(np.eye(3)))[:1], [0])
assert max_energy_slice and subdirs  # both are there
