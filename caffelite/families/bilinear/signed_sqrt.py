"""SignedSqrt: roots that keep the sign."""

from ...layers.base.elementwise import elementwise

# 0.03 bounds the slope at 0. Source: gy20073/compact_bilinear_pooling, as in ChaojianYu/Hierarchical-Bilinear-Pooling
# src/caffe/layers/signed_sqrt_layer.cpp
elementwise("SignedSqrt", y="sign(x) * sqrt(abs(x))", dx="dy * 0.5 / (abs(y) + 0.03)")
