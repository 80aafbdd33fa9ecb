"""What a person does with dead letters: count them, look into one, have them tried again."""
