"""Classes and functions stand in signatures and values by their names: `dtype=float64`, not `dtype=<class 'numpy.float64'>`.

What Python prints of them is no Python, so that Sphinx could not read the signature around it either.
"""

import re

from docutils import nodes
from sphinx import addnodes

PRINTED = re.compile(r"<(?:class '|function |factory)([\w.]*)(?:'|<lambda>| at \w+)?>|TypeAliasForwardRef\('(\w+)'\)")


def readable(text):
    """The text with names in place of what Python prints; ... for what has none.

    >>> readable("(a: TypeAliasForwardRef('Floats') | None, b=<class 'numpy.float64'>, c=<function Step.<lambda>>)")
    '(a: Floats | None, b=float64, c=...)'
    """
    return PRINTED.sub(lambda match: match[2] or match[1].rpartition(".")[2] or "...", text)


def setup(app):
    """Signatures before Sphinx reads them; values of attributes where they stand."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("object-description-transform", _values)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _signature(app, what, name, obj, options, signature, returns):
    return (readable(signature), returns and readable(returns)) if signature else None


def _values(app, domain, objtype, content):
    for signature in content.parent.findall(addnodes.desc_signature):
        for text in list(signature.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(readable(text)))
