//! An empty room, filled in the commits that follow.
