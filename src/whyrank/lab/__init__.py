"""What a product does not import: experiments, tuning, simulation, training on Ray."""
