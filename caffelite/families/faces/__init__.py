"""Face recognition: SphereFace, NormFace, L-Softmax, center loss."""
