#!/usr/bin/env bash
# Builds Containerfile without Docker and without a registry, on a base made by debootstrap, and makes the container of
# it that serve.sh runs. As root, with Debian's buildah and debootstrap. All of it lies in $SAMESTEP_IMAGES.
set -euo pipefail
cd "$(dirname "$0")/../.."
store=${SAMESTEP_IMAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/samestep/images}
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$store/storage" --runroot "$store/run" "$@"; }

base=localhost/samestep-base:trixie-uncompiled
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
  echo "making a base with debootstrap (once; kept in $store)" >&2
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie "$scratch" >&2
  # As official images of Python come.
  find "$scratch/usr/lib" -name '*.pyc' -delete
  rm -rf "$scratch"/var/cache/apt "$scratch"/var/lib/apt/lists
  container=$(buildah from scratch)
  buildah copy --quiet "$container" "$scratch" / >&2
  buildah commit --quiet --rm "$container" "$base" >&2
fi

# The packages come from where pip of this machine takes them.
options=()
if [[ -r ${PIP_CONFIG_FILE:-/etc/pip.conf} ]]; then
  options+=(--secret "id=pip,src=${PIP_CONFIG_FILE:-/etc/pip.conf}")
fi
certificate=${PIP_CERT:-$(.venv/bin/python -m pip config get global.cert 2>/dev/null || true)}
if [[ -n $certificate ]]; then
  options+=(--volume "$certificate:$certificate:ro")
fi
buildah rm samestep-test >/dev/null 2>&1 || true
buildah build --quiet --build-arg "BASE=$base" "${options[@]}" --file Containerfile --ignorefile .containerignore \
  --tag localhost/samestep:test . >&2
buildah from --name samestep-test localhost/samestep:test >&2
