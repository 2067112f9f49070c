"""The race that users run: one objective, the peers, and us; bytes up and down, and time on a link."""
