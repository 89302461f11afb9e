"""What people see of terminals, and how they type into them: joined, side by side, as a screen, as a recording."""
