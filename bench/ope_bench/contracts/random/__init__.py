"""Random streams of a trial, and draws from them."""
