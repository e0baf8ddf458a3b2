"""The workshop of rule authors: drafts, checks and proves rule files."""
