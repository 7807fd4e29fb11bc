#!/usr/bin/env bash
# `samestep` of the image that build.sh has built, as a pod of manifests/base would run it: as its own user, without
# capabilities, and with no file that it can write but the one of --ca-out. Takes the place of `python -m webhook.cli` where
# SAMESTEP_SERVER names this file (demo/serving.py). As root.
set -euo pipefail
store=${SAMESTEP_IMAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/samestep/images}
buildah() { command buildah --root "$store/storage" --runroot "$store/run" "$@"; }

root=$(buildah mount samestep-test)
exchange=$(mktemp -d)
chmod 755 "$exchange"

# What the tests give it by name it could not read, since their folders are root's: it gets copies, and they its answer.
options=()
certificate=
for option in "$@"; do
  case $option in
    --kubeconfig=*)
      cp "${option#*=}" "$exchange/kubeconfig"
      authority=$(sed -n 's/.*"certificate-authority": "\(.*\)".*/\1/p' "$exchange/kubeconfig")
      cp "$authority" "$exchange/authority.crt"
      sed -i "s|$authority|/mnt/authority.crt|" "$exchange/kubeconfig"
      options+=(--kubeconfig=/mnt/kubeconfig)
      ;;
    --fleet=*)
      cp "${option#*=}" "$exchange/fleet.json"
      options+=(--fleet=/mnt/fleet.json)
      ;;
    --ca-out=*)
      certificate=${option#*=}
      options+=(--ca-out=/mnt/out/ca.pem)
      ;;
    *) options+=("$option") ;;
  esac
done
mkdir "$exchange/out"
chmod -R a+rX "$exchange"
chown 65532 "$exchange/out"
if [[ -n $certificate ]]; then
  ln -sf "$exchange/out/ca.pem" "$certificate"
fi

export root exchange
exec unshare --mount sh -c '
  mount --bind "$root" "$root"
  mount --bind -o ro,remount "$root"
  mount --bind "$exchange" "$root/mnt"
  mount -t proc proc "$root/proc"
  exec setpriv --no-new-privs chroot --userspec=65532:65532 --groups= "$root" /opt/samestep/bin/samestep "$@"
' sh "${options[@]}"
