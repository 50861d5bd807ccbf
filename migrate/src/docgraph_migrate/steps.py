"""The steps of a conversion, in their order."""

from __future__ import annotations

from docgraph_migrate.authentication import convert_authentication
from docgraph_migrate.convert import Conversion
from docgraph_migrate.differences import report_differences


def run_conversion(conversion: Conversion) -> None:
    """Convert all sections and options."""
    conversion.report_version()
    conversion.convert_options()
    convert_authentication(conversion)
    conversion.convert_services()
    report_differences(conversion)
    conversion.drop_disabled()
