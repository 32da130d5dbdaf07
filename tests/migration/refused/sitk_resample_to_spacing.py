"""Other distances of the voxels over the same extent, in two dimensions and three."""

import numpy as np
import SimpleITK as sitk

from delira.utils import sitk_resample_to_spacing  # refused

plane = sitk.GetImageFromArray(np.arange(4.0)[None].repeat(2, 0))
plane.SetSpacing((2.0, 1.0))
fine = sitk_resample_to_spacing(plane, (1.0, 1.0))
# the voxels are halved: their centres lie a quarter of a voxel beside those of before
expected = np.interp((np.arange(8) - 0.5) / 2, np.arange(4.0), np.arange(4.0))
assert fine.GetSize() == (8, 2) and fine.GetOrigin() == (-0.5, 0.0)
np.testing.assert_allclose(sitk.GetArrayFromImage(fine)[0][1:-1], expected[1:-1])

volume = sitk.GetImageFromArray(np.zeros((3, 4, 5)))
volume.SetSpacing((2.0, 1.0, 3.0))
assert sitk_resample_to_spacing(volume, interpolator=sitk.sitkNearestNeighbor).GetSize() == (10, 4, 9)
