"""The claims of "Off-Policy Evaluation for Embedded Spaces", judged by committed trials."""
