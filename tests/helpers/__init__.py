"""What several test modules share; a helper stands here, never beside tests."""
