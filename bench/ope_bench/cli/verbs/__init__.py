"""One module for each command, with the command's name; it defines ``command`` or ``app``."""
