"""Settings of Sphinx, which makes a site of the pages in docs/: `make docs`."""

import re

from docutils import nodes
from docutils.transforms import Transform
from sphinx.application import Sphinx

project = "BNN Atlas"
author = "The BNN Atlas authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"inherited-members": "tuple"}


class Anchors(Transform):
    """Links may lead to `<a id="name">`, as in the pages of results; MyST alone knows headings only."""

    default_priority = 870

    def apply(self) -> None:
        """Add the names of a page to those of its headings."""
        for raw in self.document.findall(nodes.raw):
            for name in re.findall(r'<a id="(.+?)">', raw.astext()):
                self.document.myst_slugs.setdefault(name, (0, name, name))


def _added_by_sklearn(app: Sphinx, what: str, name: str, member: object, *_: object) -> bool | None:
    """Leave out what estimators inherit from scikit-learn, and the methods that it adds for its routing of metadata."""
    theirs = (getattr(member, "__module__", None) or "").startswith("sklearn.")
    return True if theirs or name.endswith("_request") else None


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_transform(Anchors)
    app.connect("autodoc-skip-member", _added_by_sklearn)
