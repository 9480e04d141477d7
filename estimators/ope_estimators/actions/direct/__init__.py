"""Direct methods: a reward model averaged over the target policy or target sample."""
