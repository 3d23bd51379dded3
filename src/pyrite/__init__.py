"""Deep learning in Python on any GPU, CPU or browser, from one small install."""
