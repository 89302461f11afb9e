"""How another machine becomes a worker: invited by a code, or added over SSH with the program brought there."""
