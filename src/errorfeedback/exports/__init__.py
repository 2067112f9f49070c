"""A trained model outside of errorfeedback: one form per file, found by discovery."""
