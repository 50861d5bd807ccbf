"""JSON Web Tokens: algorithms, claims, key sets, signatures."""
