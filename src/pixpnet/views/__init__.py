"""What a person looks at: figures, reports, pages."""
