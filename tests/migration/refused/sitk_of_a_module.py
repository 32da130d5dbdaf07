"""Helpers that are reached by their module, one within the other."""

import numpy as np
import SimpleITK as sitk

from delira.utils import imageops

image = sitk.GetImageFromArray(np.arange(24.0).reshape(2, 3, 4))
blank = imageops.sitk_new_blank_image((4, 3, 2), (1, 1, 1), image.GetDirection(), (0, 0, 0), 7.0)  # refused
assert (sitk.GetArrayFromImage(blank) == 7).all() and sitk.GetArrayFromImage(blank).shape == (2, 3, 4)
back = imageops.sitk_resample_to_image(imageops.sitk_resample_to_shape(image, 8, 6, 4, order=0), blank)  # refused
assert back.GetSize() == (4, 3, 2)
# each voxel was eight equal ones, and the middle of them is one of them
np.testing.assert_allclose(sitk.GetArrayFromImage(back), np.arange(24.0).reshape(2, 3, 4))
