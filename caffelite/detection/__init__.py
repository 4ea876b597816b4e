"""Detection of objects: arithmetic of boxes, matching with known objects, average precision. NumPy alone."""
