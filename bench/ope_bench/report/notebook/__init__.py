"""Results as notebooks show them: tables in HTML, failures with their reasons."""
