"""Commands about the installation itself: is it healthy, are its kernels compiled, does the shell complete it."""
