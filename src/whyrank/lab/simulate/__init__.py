"""Data with a planted structure: triplets, reviews, and people who react to reasons."""

from whyrank.lab.simulate.people import SimulatedPeople, simulate_people
from whyrank.lab.simulate.reviews import simulate_reviews
from whyrank.lab.simulate.triplets import simulate

__all__ = ["SimulatedPeople", "simulate", "simulate_people", "simulate_reviews"]
