"""install_archive: what `tools/install.sh` unpacks: headers, the shared library, programs and texts, in one tar file."""

# Headers are reached through include_prefix: .../_virtual_includes/<target>/lockstep/<folder>/<file>.h
_MARK = "/_virtual_includes/"

def _headers(libraries):
    found = {}
    for library in libraries:
        for header in library[CcInfo].compilation_context.direct_public_headers:
            at = header.path.find(_MARK)
            if at >= 0:
                found["include/" + header.path[at + len(_MARK):].partition("/")[2]] = header
    return found

def _impl(ctx):
    files = _headers(ctx.attr.libraries)
    for target, place in ctx.attr.files.items():
        files[place] = target.files.to_list()[0]
    listing = ctx.actions.declare_file(ctx.label.name + ".list")
    ctx.actions.write(listing, "".join(["%s\t%s\n" % (place, files[place].path) for place in sorted(files)]))
    links = "".join([" && ln -s '%s' \"$root/%s\"" % (to, place) for place, to in ctx.attr.links.items()])
    ctx.actions.run_shell(
        inputs = files.values() + [listing],
        outputs = [ctx.outputs.out],
        # The same bytes from the same inputs, so that tests which depend on it are not run again.
        command = """set -e
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
while IFS=$'\\t' read -r place from; do install -D -m "$([ -x "$from" ] && [[ $place != include/* ]] && echo 755 || echo 644)" "$from" "$root/$place"; done <%s
true%s
out=$PWD/%s
cd "$root"
# No entries for folders: unpacking must not change those that are there.
find * ! -type d -print0 | LC_ALL=C sort -z |
  tar --null -T - --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$out"
""" % (listing.path, links, ctx.outputs.out.path),
        mnemonic = "InstallArchive",
    )

install_archive = rule(
    implementation = _impl,
    attrs = {
        "files": attr.label_keyed_string_dict(allow_files = True, doc = "one file each -> its place"),
        "libraries": attr.label_list(providers = [CcInfo], doc = "their own `hdrs` go to include/, those of their deps do not"),
        "links": attr.string_dict(doc = "place -> what the symbolic link there points to"),
        "out": attr.output(mandatory = True),
    },
)
