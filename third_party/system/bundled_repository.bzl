"""bundled_repository: the folder of its own name in third_party/, wherever this workspace lies."""

def _impl(rctx):
    folder = rctx.path(Label("//:WORKSPACE")).dirname.get_child("third_party").get_child(rctx.name)
    for entry in folder.readdir():
        rctx.symlink(entry, entry.basename)

bundled_repository = repository_rule(implementation = _impl, local = True)
