"""Values between the pixels: deformable convolutions, points in boxes."""
