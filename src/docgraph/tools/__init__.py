"""`/_tools`: what people who write apps need to know before anything is stored."""
