"""What could be better about apps and the data that they are about; nothing is changed."""
