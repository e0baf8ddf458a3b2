"""What a job left, opened: files, folders, pipes and pastes → blocks of bytes."""
