#!/bin/sh
# Tells Bazel the commit for version.h and run.json (base/build_commit.h); silent where there is no git or no checkout.
commit=$(git rev-parse HEAD 2>/dev/null) || exit 0
git diff --quiet HEAD 2>/dev/null || commit="$commit-dirty"
echo "STABLE_GIT_COMMIT $commit"
