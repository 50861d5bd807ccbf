"""What the authors of definitions may show: no more than a request of their own would."""
