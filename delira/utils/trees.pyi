from delira.utils.arrays import *
