"""Tags of an image, not its place in space."""

import SimpleITK as sitk

from delira.utils.imageops import sitk_copy_metadata as copy_tags  # refused

source, target = sitk.Image(2, 2, sitk.sitkUInt8), sitk.Image(2, 2, sitk.sitkUInt8)
source.SetMetaData("0010|0010", "Doe^Jane")
source.SetSpacing((3.0, 3.0))
target = copy_tags(source, target)
assert target.GetMetaData("0010|0010") == "Doe^Jane"
assert target.GetSpacing() == (1.0, 1.0)
