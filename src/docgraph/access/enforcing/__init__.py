"""What the conditions of a permission do to reads and writes."""
