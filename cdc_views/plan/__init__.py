"""Plans: what a view computes, as nodes that every renderer and compiler walks."""
