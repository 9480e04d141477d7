"""Settings of the whole process: what a trial may change, and how it is put back."""
