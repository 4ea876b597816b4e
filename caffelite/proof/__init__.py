"""Proofs: how far apart two programs are that compute the same net, by what both make of the same inputs"""
