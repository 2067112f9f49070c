"""Train on the rows of many nodes, which stay where they are, over Flower."""
