"""What a written mathematical answer means: parsed to a small tree, evaluated exactly or to 60 digits, and compared."""
