"""Data with a planted structure: triplets, reviews, and people who react to reasons."""

from whyrank.simulation.people import SimulatedPeople, simulate_people
from whyrank.simulation.reviews import simulate_reviews
from whyrank.simulation.triplets import simulate

__all__ = ["SimulatedPeople", "simulate", "simulate_people", "simulate_reviews"]
