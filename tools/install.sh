#!/usr/bin/env bash
# Installs the library for programs outside this repository: lib/liblockstep.so, include/lockstep/, files for CMake and
# pkg-config, and the programs lockstep and train_resnet.
#   tools/install.sh PREFIX [--config=avx512 ...]    builds, then installs; other options are Bazel's
#   tools/install.sh PREFIX --archive=FILE           installs what was built before (bazel-bin/packaging/lockstep.tar)
#   tools/install.sh PREFIX --uninstall              removes what it installed
# With DESTDIR everything goes below that folder, for those who make packages. The installed folder can be moved.
set -euo pipefail
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }
die() { echo "install: $1" >&2; exit "${2:-1}"; }

prefix='' archive='' uninstall='' options=()
for argument in "$@"; do
  case "$argument" in
    --help | -h) usage; exit 0 ;;
    --uninstall) uninstall=1 ;;
    --archive=*) archive=$(realpath -- "${argument#*=}") ;;
    -*) options+=("$argument") ;;
    *) [ -z "$prefix" ] || die "wanted one PREFIX, got '$prefix' and '$argument'" 2; prefix=$argument ;;
  esac
done
[ -n "$prefix" ] || { usage >&2; exit 2; }
root=${DESTDIR:-}$(realpath -ms -- "$prefix")
manifest=$root/share/doc/lockstep/manifest.txt

# Removes the files whose names come in, and folders that this leaves empty.
remove_files() {
  local file folder
  while IFS= read -r file; do
    rm -f -- "$root/$file"
    folder=$(dirname -- "$file")
    while [ "$folder" != . ] && rmdir -- "$root/$folder" 2>/dev/null; do folder=$(dirname -- "$folder"); done
  done
}

if [ -n "$uninstall" ]; then
  [ -f "$manifest" ] || die "nothing to remove: there is no $manifest"
  names=$(cat -- "$manifest")
  remove_files <<<"$names"
  rmdir -- "$root" 2>/dev/null || true
  echo "install: removed from $root"
  exit
fi

# Known before the build, which takes minutes.
there=$root
while [ ! -e "$there" ]; do there=$(dirname -- "$there"); done
[ -d "$there" ] || die "$there is not a folder; give another PREFIX"
[ -w "$there" ] || die "cannot write to $there; give another PREFIX, or the rights"

cd "$(dirname "$0")/.."
if [ -z "$archive" ]; then
  bazel build --config=opt --ui_event_filters=-info --show_result=0 "${options[@]}" //packaging:archive
  archive=bazel-bin/packaging/lockstep.tar
elif [ ${#options[@]} -gt 0 ]; then
  die "${options[0]} is for a build, and with --archive there is none" 2
fi

umask 022
mkdir -p -- "$root"
tar -xf "$archive" -C "$root" --no-same-owner
mkdir -p -- "$(dirname -- "$manifest")"
{ tar -tf "$archive"; echo share/doc/lockstep/manifest.txt; } | LC_ALL=C sort >"$manifest.new"
# What an older version had and this one has not.
if [ -f "$manifest" ]; then LC_ALL=C comm -23 "$manifest" "$manifest.new" | remove_files; fi
mv -f -- "$manifest.new" "$manifest"
echo "install: $(wc -l <"$manifest") files in $root"
echo "  CMake:      -DCMAKE_PREFIX_PATH='$root'"
echo "  pkg-config: PKG_CONFIG_PATH='$root/lib/pkgconfig'"
