"""The two kinds of arrays that the OSCAR models pass around."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
