"""Return filled forms for tests of the submit form."""

from __future__ import annotations

from warpdeck_tui.viewmodels.job_form.form import Sheet, typed


def filled(**fields: str) -> Sheet:
    """Return a form with these fields, typed one after the other."""
    sheet = Sheet()
    for field, value in fields.items():
        sheet = typed(sheet, field, value)
    return sheet
