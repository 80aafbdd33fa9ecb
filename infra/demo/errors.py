"""Why a demo did not come to its end; the text is what a person reads."""


class DemoError(RuntimeError):
    """A part of the demo ended or stood still; says which, where its log is and how that ends."""


class Busy(DemoError):
    """The directory is another demo's, or not a demo's."""
