"""What is said of it: the machine behind the numbers, and the plot."""
