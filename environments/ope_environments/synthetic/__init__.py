"""What synthetic environments share: affine scores, integrals over normal contexts."""
