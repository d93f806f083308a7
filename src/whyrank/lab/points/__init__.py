"""What mining learns from reviews that people annotated point by point."""
