"""Models of rewards and policies that estimators fit, shared by trials on the same data."""
