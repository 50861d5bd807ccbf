"""What is refused always, row filters, and what is hidden from reads."""
