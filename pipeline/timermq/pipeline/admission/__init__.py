"""What a producer asks for, and whether the wheel takes it."""
