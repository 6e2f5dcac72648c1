"""What an export refuses."""


class ExportError(ValueError):
    """A model that cannot be exported, or a file that does not do what the model does; nothing is left behind."""
