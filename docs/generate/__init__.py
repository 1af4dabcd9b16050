"""Write the pages of docs/reference from the code, so that they cannot be out of date.

`python -m docs.generate` writes the pages. `python -m docs.generate --check` exits with 1 and names each page that differs from the
code. The generator asks objects: the table of verbs, tables of options, msgspec structs, the app's table of actions, and the library's
classes. Only the sentence below a field is read from source text, because Python keeps no docstrings of fields.
"""
